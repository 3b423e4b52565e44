package controller

import (
	"sync"

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

// answers hold why each parent is as it is, in the guest's words.
type answers struct {
	mu  sync.Mutex
	why map[types.NamespacedName][]string
}

func (a *answers) keep(parent types.NamespacedName, why []string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(why) == 0 {
		delete(a.why, parent)
		return
	}
	if a.why == nil {
		a.why = map[types.NamespacedName][]string{}
	}
	a.why[parent] = why
}

// Why is what the guest said last of a parent.
func (d *Driver) Why(parent types.NamespacedName) []string {
	d.answers.mu.Lock()
	defer d.answers.mu.Unlock()
	return d.answers.why[parent]
}
