package store

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
)

// Memory is an engine without a disk, for tests and for trying things out. It
// outlives a Close, so that a test can open a second store on it.
type Memory struct {
	mu       sync.Mutex
	records  map[string]Record
	revision int64
}

// NewMemory returns an empty engine.
func NewMemory() *Memory { return &Memory{records: map[string]Record{}} }

func (m *Memory) Scan(ctx context.Context, prefix string, keysOnly bool, fn func(Record) error) (int64, error) {
	m.mu.Lock()
	records, revision := maps.Clone(m.records), m.revision
	m.mu.Unlock()
	for _, key := range slices.Sorted(maps.Keys(records)) {
		if !strings.HasPrefix(key, prefix) {
			continue
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		rec := records[key]
		if keysOnly {
			rec.Value = nil
		}
		rec.Value = slices.Clone(rec.Value)
		if err := fn(rec); err != nil {
			return 0, err
		}
	}
	return revision, nil
}

func (m *Memory) Commit(ctx context.Context, b Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if b.weight() > m.Limits().Bytes || len(b.Puts)+len(b.Deletes) > m.Limits().Records {
		return ErrTooLarge
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, rec := range b.Puts {
		rec.Value = slices.Clone(rec.Value)
		m.records[rec.Key] = rec
	}
	for _, key := range b.Deletes {
		delete(m.records, key)
	}
	if b.Revision != 0 {
		m.revision = b.Revision
	}
	return nil
}

func (m *Memory) Compact(context.Context) error { return nil }

func (m *Memory) Limits() Limits { return Limits{Bytes: 8 << 20, Records: 10_000} }

func (m *Memory) Close() error { return nil }
