package store

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
)

// A backup is a stream that says by itself whether it is whole:
//
//	"BERTHBAK" version(u32)
//	record*   1 keyLen(u32) revision(u64) valueLen(u32) key value
//	end       2 records(u64) revision(u64) sha256 of all bytes before
//
// Numbers are big endian; records come by ascending key.
const (
	backupMagic   = "BERTHBAK"
	backupVersion = 1
	recordFrame   = 1
	endFrame      = 2
	maxKey        = 1 << 16
	maxValue      = 64 << 20
)

// RestoreGap is how far a restore moves the revision on. Clients may have seen
// revisions after the backup was made; none of those may come again with
// another meaning.
const RestoreGap = 1_000_000_000

// ErrDamaged means that a backup is truncated or not what Backup wrote.
var ErrDamaged = errors.New("the backup is damaged")

// Backup writes all objects and blobs as of one revision, and returns it.
// Writing goes on meanwhile; a blob that is being put may be in it by half, and
// is collected when the restored store opens.
func (s *Store) Backup(ctx context.Context, w io.Writer) (rev int64, err error) {
	release, ok := s.use()
	if !ok {
		return 0, ErrClosed
	}
	defer release()
	ctx, cancel := s.untilClose(ctx)
	defer cancel()
	out := newBackupWriter(w)
	rev, err = s.engine.Scan(ctx, "", false, func(rec Record) error {
		if rec.Key == formatKey {
			return nil
		}
		return out.record(rec)
	})
	if err == nil {
		err = out.end(rev)
	}
	if err != nil {
		return 0, fmt.Errorf("write backup: %w", err)
	}
	return rev, nil
}

type backupWriter struct {
	buf     *bufio.Writer
	sum     hash.Hash
	out     io.Writer // to both
	records uint64
}

func newBackupWriter(w io.Writer) *backupWriter {
	b := &backupWriter{buf: bufio.NewWriterSize(w, 1<<20), sum: sha256.New()}
	b.out = io.MultiWriter(b.buf, b.sum)
	_ = b.write(binary.BigEndian.AppendUint32([]byte(backupMagic), backupVersion)) // bufio keeps the error for the next
	return b
}

func (b *backupWriter) write(p []byte) error {
	_, err := b.out.Write(p)
	return err
}

func (b *backupWriter) record(rec Record) error {
	head := binary.BigEndian.AppendUint32([]byte{recordFrame}, uint32(len(rec.Key)))
	head = binary.BigEndian.AppendUint64(head, uint64(rec.Revision))
	head = binary.BigEndian.AppendUint32(head, uint32(len(rec.Value)))
	b.records++
	return errors.Join(b.write(append(head, rec.Key...)), b.write(rec.Value))
}

func (b *backupWriter) end(rev int64) error {
	tail := binary.BigEndian.AppendUint64([]byte{endFrame}, b.records)
	tail = binary.BigEndian.AppendUint64(tail, uint64(rev))
	if err := b.write(tail); err != nil {
		return err
	}
	if _, err := b.buf.Write(b.sum.Sum(nil)); err != nil {
		return err
	}
	return b.buf.Flush()
}

// Restore fills an empty engine from a backup. Until the last byte is checked,
// the engine is marked and Open refuses it. The restored revision lies RestoreGap above that of the backup,
// so that clients' watches from before end with ErrCompacted.
//
// # Errors
//
// ErrNotEmpty, ErrFormat for another version, ErrDamaged; ErrHalfRestored as well,
// where the engine has to be removed before the next try.
func Restore(ctx context.Context, engine Engine, r io.Reader) (rev int64, err error) {
	if err := checkEmpty(ctx, engine); err != nil {
		return 0, err
	}
	in := newBackupReader(r)
	if err := in.header(); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	mark := Record{Key: restoreKey, Value: []byte("running")}
	if err := engine.Commit(ctx, Batch{Puts: []Record{mark}}); err != nil {
		return 0, fmt.Errorf("restore: %w", err)
	}
	if rev, err = in.restore(ctx, engine); err != nil {
		return 0, fmt.Errorf("%w: %w", ErrHalfRestored, err)
	}
	rev += RestoreGap
	put := Record{Key: formatKey, Value: []byte(format), Revision: rev}
	err = engine.Commit(ctx, Batch{Revision: rev, Puts: []Record{put}, Deletes: []string{restoreKey}})
	return rev, err
}

// ErrNotEmpty means that a restore would mix two states.
var ErrNotEmpty = errors.New("restore only into an empty directory")

func checkEmpty(ctx context.Context, engine Engine) error {
	_, err := engine.Scan(ctx, "", true, func(Record) error { return ErrNotEmpty })
	return err
}

// restore writes the records in batches and checks the end.
func (b *backupReader) restore(ctx context.Context, engine Engine) (int64, error) {
	limits := engine.Limits()
	var batch Batch
	weight := 0
	flush := func() error {
		err := engine.Commit(ctx, batch)
		batch, weight = Batch{}, 0
		return err
	}
	for {
		rec, rev, err := b.next()
		if err != nil {
			return 0, err
		}
		full := weight+rec.weight() > limits.Bytes || len(batch.Puts) >= limits.Records
		if (full || rec.Key == "") && len(batch.Puts) > 0 {
			if err := flush(); err != nil {
				return 0, err
			}
		}
		if rec.Key == "" {
			return rev, nil
		}
		batch.Puts = append(batch.Puts, rec)
		weight += rec.weight()
	}
}
