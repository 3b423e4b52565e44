package store

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
)

// A blob lies in chunks, and is there once its manifest is: chunks without one
// are what a crash or a deletion left, and are collected at the next Open.

const chunkSize = 256 << 10

type manifest struct {
	Size   int    `json:"size"`
	Chunks int    `json:"chunks"`
	SHA256 string `json:"sha256"`
}

func blobError(digest string, kind error) error {
	return &Error{Key: Key{Resource: "blobs", Name: digest}, Kind: kind}
}

func checkDigest(digest string) error {
	if digest == "" || len(digest) > 256 || strings.ContainsAny(digest, "/\x00") {
		return fmt.Errorf("%q is no name of a blob: give its digest", digest)
	}
	return nil
}

func chunkKey(digest string, i int) string { return fmt.Sprintf("%s%s/%08x", chunkPrefix, digest, i) }

// PutBlob keeps data under its digest, durably and all or nothing. A blob that
// is there already stays as it is.
func (s *Store) PutBlob(ctx context.Context, digest string, data []byte) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	release, ok := s.use()
	if !ok {
		return blobError(digest, ErrClosed)
	}
	defer release()
	s.blobs.Lock()
	defer s.blobs.Unlock()
	have, err := s.manifest(ctx, digest)
	if err != nil || have != nil {
		return err
	}
	sum := sha256.Sum256(data)
	m := manifest{Size: len(data), SHA256: hex.EncodeToString(sum[:])}
	var puts []Record
	for rest := data; len(rest) > 0; m.Chunks++ {
		n := min(chunkSize, len(rest))
		puts = append(puts, Record{Key: chunkKey(digest, m.Chunks), Value: rest[:n]})
		rest = rest[n:]
	}
	if err := s.commitAll(ctx, puts, nil); err != nil {
		return fmt.Errorf("put blob %s: %w", digest, err)
	}
	value, err := json.Marshal(m)
	if err != nil {
		return err
	}
	// The manifest makes the blob visible, so it comes alone and last.
	return s.commitAll(ctx, []Record{{Key: manifestPrefix + digest, Value: value}}, nil)
}

// Blob returns the bytes, checked against what was put.
func (s *Store) Blob(ctx context.Context, digest string) ([]byte, error) {
	if err := checkDigest(digest); err != nil {
		return nil, err
	}
	release, ok := s.use()
	if !ok {
		return nil, blobError(digest, ErrClosed)
	}
	defer release()
	s.blobs.RLock()
	defer s.blobs.RUnlock()
	m, err := s.manifest(ctx, digest)
	if err != nil {
		return nil, err
	}
	if m == nil {
		return nil, blobError(digest, ErrNotFound)
	}
	var data []byte
	_, err = s.engine.Scan(ctx, chunkPrefix+digest+"/", false, func(rec Record) error {
		data = append(data, rec.Value...)
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("read blob %s: %w", digest, err)
	}
	if sum := sha256.Sum256(data); hex.EncodeToString(sum[:]) != m.SHA256 {
		return nil, fmt.Errorf("blob %s is damaged: %d of %d bytes, and not those that were put", digest, len(data), m.Size)
	}
	return data, nil
}

// DeleteBlob removes the blob; ErrNotFound if there is none.
func (s *Store) DeleteBlob(ctx context.Context, digest string) error {
	if err := checkDigest(digest); err != nil {
		return err
	}
	release, ok := s.use()
	if !ok {
		return blobError(digest, ErrClosed)
	}
	defer release()
	s.blobs.Lock()
	defer s.blobs.Unlock()
	m, err := s.manifest(ctx, digest)
	if err != nil {
		return err
	}
	if m == nil {
		return blobError(digest, ErrNotFound)
	}
	if err := s.commitAll(ctx, nil, []string{manifestPrefix + digest}); err != nil {
		return err
	}
	chunks := make([]string, m.Chunks)
	for i := range chunks {
		chunks[i] = chunkKey(digest, i)
	}
	return s.commitAll(ctx, nil, chunks)
}

// Blobs returns the digests of all blobs, sorted.
func (s *Store) Blobs(ctx context.Context) ([]string, error) {
	release, ok := s.use()
	if !ok {
		return nil, blobError("", ErrClosed)
	}
	defer release()
	return s.digests(ctx)
}

func (s *Store) digests(ctx context.Context) ([]string, error) {
	var digests []string
	_, err := s.engine.Scan(ctx, manifestPrefix, true, func(rec Record) error {
		digests = append(digests, strings.TrimPrefix(rec.Key, manifestPrefix))
		return nil
	})
	sort.Strings(digests)
	return digests, err
}

// manifest returns nil if there is no such blob.
func (s *Store) manifest(ctx context.Context, digest string) (*manifest, error) {
	key := manifestPrefix + digest
	var m *manifest
	_, err := s.engine.Scan(ctx, key, false, func(rec Record) error {
		if rec.Key != key {
			return nil // another digest that begins with this one
		}
		m = &manifest{}
		return json.Unmarshal(rec.Value, m)
	})
	if err != nil {
		return nil, fmt.Errorf("read manifest of blob %s: %w", digest, err)
	}
	return m, nil
}

func (s *Store) commitAll(ctx context.Context, puts []Record, deletes []string) error {
	for _, b := range cut(s.limits, puts, deletes) {
		if err := s.engine.Commit(ctx, b); err != nil {
			return err
		}
	}
	return nil
}

// collectBlobs removes chunks which no manifest names.
func (s *Store) collectBlobs(ctx context.Context) error {
	digests, err := s.digests(ctx)
	if err != nil {
		return err
	}
	kept := make(map[string]bool, len(digests))
	for _, d := range digests {
		kept[d] = true
	}
	var orphans []string
	_, err = s.engine.Scan(ctx, chunkPrefix, true, func(rec Record) error {
		digest, _, _ := strings.Cut(strings.TrimPrefix(rec.Key, chunkPrefix), "/")
		if !kept[digest] {
			orphans = append(orphans, rec.Key)
		}
		return nil
	})
	if err != nil || len(orphans) == 0 {
		return err
	}
	s.opts.Logger.Info("removing pieces of blobs that were not put or deleted to the end", "chunks", len(orphans))
	return s.commitAll(ctx, nil, orphans)
}
