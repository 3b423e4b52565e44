package controller

import (
	"encoding/json"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/lru"
)

// refusals remember what was refused of the last answer about each parent, so
// that the guest can be told. Those of parents that are gone fall out in time.
type refusals struct {
	once sync.Once
	last *lru.Cache
}

const maxRefusals = 10_000

func (r *refusals) cache() *lru.Cache {
	r.once.Do(func() { r.last = lru.New(maxRefusals) })
	return r.last
}

func (r *refusals) keep(parent types.UID, text string) {
	if text == "" {
		r.cache().Remove(parent)
		return
	}
	r.cache().Add(parent, text)
}

func (r *refusals) of(parent types.UID) string {
	text, _ := r.cache().Get(parent)
	s, _ := text.(string)
	return s
}

// memories are what guests asked to be told in their next questions. Those of
// parents that are gone fall out in time.
type memories struct {
	once sync.Once
	last *lru.Cache
}

const maxMemories = 10_000

func (m *memories) cache() *lru.Cache {
	m.once.Do(func() { m.last = lru.New(maxMemories) })
	return m.last
}

func (m *memories) keep(parent types.UID, what json.RawMessage) {
	if len(what) > 0 {
		m.cache().Add(parent, what)
	}
}

func (m *memories) of(parent types.UID) json.RawMessage {
	what, _ := m.cache().Get(parent)
	value, _ := what.(json.RawMessage)
	return value
}

// Outcome is what came of the last question about a parent.
type Outcome struct {
	// Asked is when that was.
	Asked time.Time
	// Why is what the guest said of it, in sentences.
	Why []string
	// Refused is what the host refused of the answer, Error why there was none or
	// it could not be stored.
	Refused, Error string
	// Again is when the guest is asked next even if nothing changes; zero is never.
	Again  time.Time
	status json.RawMessage // that the guest gave
}

// outcomes hold what came of each parent's last question.
type outcomes struct {
	mu   sync.Mutex
	last map[types.NamespacedName]Outcome
}

func (a *outcomes) keep(parent types.NamespacedName, o Outcome) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.last == nil {
		a.last = map[types.NamespacedName]Outcome{}
	}
	a.last[parent] = o
}

func (a *outcomes) forget(parent types.NamespacedName) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.last, parent)
}

// status is the one that the guest gave last; empty if none.
func (a *outcomes) status(parent types.NamespacedName) json.RawMessage {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last[parent].status
}

// Last is what came of the last question about a parent, if there was one.
func (d *Driver) Last(namespace, name string) (Outcome, bool) {
	d.outcomes.mu.Lock()
	defer d.outcomes.mu.Unlock()
	o, ok := d.outcomes.last[types.NamespacedName{Namespace: namespace, Name: name}]
	return o, ok
}

// Of is the store's resource of the parents.
func (d *Driver) Of() string { return d.parent.Resource }

// Makes are the store's resources of the children.
func (d *Driver) Makes() (resources []string) {
	for i := range d.children {
		resources = append(resources, d.children[i].Resource)
	}
	return resources
}
