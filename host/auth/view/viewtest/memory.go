// Package viewtest is a view of objects in memory, for tests of what stands
// above the store.
package viewtest

import (
	"context"
	"slices"
	"strconv"
	"sync"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"
)

// Memory implements view.Store; the zero value is empty.
type Memory struct {
	mu       sync.RWMutex
	revision int64
	objects  map[store.Key]store.Object
	versions map[string]int64
}

var _ view.Store = (*Memory)(nil)

// Get implements view.Objects.
func (m *Memory) Get(_ context.Context, key store.Key) (store.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	if obj, ok := m.objects[key]; ok {
		return obj, nil
	}
	return nil, &store.Error{Key: key, Kind: store.ErrNotFound}
}

// List implements view.Objects, sorted by namespace and name.
func (m *Memory) List(_ context.Context, resource, namespace string) ([]store.Object, error) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	var keys []store.Key
	for key := range m.objects {
		if key.Resource == resource && (namespace == "" || key.Namespace == namespace) {
			keys = append(keys, key)
		}
	}
	slices.SortFunc(keys, func(a, b store.Key) int {
		return slices.Compare([]string{a.Namespace, a.Name}, []string{b.Namespace, b.Name})
	})
	var found []store.Object
	for _, key := range keys {
		found = append(found, m.objects[key])
	}
	return found, nil
}

// Version implements view.Objects.
func (m *Memory) Version(resource string) int64 {
	m.mu.RLock()
	defer m.mu.RUnlock()
	return m.versions[resource]
}

// Commit implements view.Store.
func (m *Memory) Commit(_ context.Context, ops ...store.Op) (int64, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.objects == nil {
		m.objects, m.versions = map[store.Key]store.Object{}, map[string]int64{}
	}
	for _, op := range ops {
		if err := m.check(op); err != nil {
			return 0, err
		}
	}
	for _, op := range ops {
		m.revision++
		m.versions[op.Key.Resource] = m.revision
		if op.Kind == store.Delete {
			delete(m.objects, op.Key)
			continue
		}
		op.Object.SetResourceVersion(strconv.FormatInt(m.revision, 10))
		m.objects[op.Key] = op.Object
	}
	return m.revision, nil
}

func (m *Memory) check(op store.Op) error {
	have, exists := m.objects[op.Key]
	if op.Kind == store.Create {
		if exists {
			return &store.Error{Key: op.Key, Kind: store.ErrExists}
		}
		within, exists := m.objects[op.Requires]
		if op.Requires.Name != "" && (!exists || within.GetDeletionTimestamp() != nil) {
			return &store.Error{Key: op.Requires, Kind: store.ErrConflict}
		}
		return nil
	}
	if !exists {
		return &store.Error{Key: op.Key, Kind: store.ErrNotFound}
	}
	rev, _ := strconv.ParseInt(have.GetResourceVersion(), 10, 64)
	if op.Expect != 0 && op.Expect != rev {
		return &store.Error{Key: op.Key, Kind: store.ErrConflict, Have: rev}
	}
	return nil
}

// Put creates or replaces an object.
func (m *Memory) Put(resource string, obj store.Object) {
	key := view.KeyOf(resource, obj)
	kind := store.Create
	if _, err := m.Get(context.Background(), key); err == nil {
		kind = store.Update
	}
	if _, err := m.Commit(context.Background(), store.Op{Kind: kind, Key: key, Object: obj}); err != nil {
		panic(err)
	}
}

// Drop removes an object.
func (m *Memory) Drop(resource, namespace, name string) {
	key := store.Key{Resource: resource, Namespace: namespace, Name: name}
	if _, err := m.Commit(context.Background(), store.Op{Kind: store.Delete, Key: key}); err != nil {
		panic(err)
	}
}
