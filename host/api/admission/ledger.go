package admission

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// follower lists and watches; view.Live is one.
type follower interface {
	ListAt(resource, namespace string) ([]store.Object, int64, error)
	Watch(resource, namespace string, from int64) (*store.Watch, error)
}

// book is what one quota knows: what the stored objects use, and what writes
// on their way will use. It follows the store's events, so that a question is
// answered from the newest committed state without counting again.
type book struct {
	quota   *corev1.ResourceQuota
	now     func() time.Time
	used    corev1.ResourceList
	entries map[string]*entries // by resource
	pending map[types.UID]reservation
}

// reservation is what a write on its way will use.
type reservation struct {
	usage corev1.ResourceList
	// from is the resource version of what it changes, empty for a creation.
	from string
}

// entries are the objects of one resource that count, and the place in its
// history up to which they do.
type entries struct {
	watch *store.Watch
	usage map[types.UID]corev1.ResourceList
	// ending are pods that cease to count by the time alone, without an event.
	ending map[types.UID]store.Object
}

// openBook counts the namespace's objects. Of the pending writes of the book
// before, those end that are counted so.
func openBook(from follower, q *corev1.ResourceQuota, now func() time.Time, pending map[types.UID]reservation) (*book, error) {
	b := &book{quota: q, now: now, used: corev1.ResourceList{}, entries: map[string]*entries{}, pending: pending}
	for name := range q.Spec.Hard {
		resource := ownerOf(name)
		if b.entries[resource] != nil {
			continue
		}
		if err := b.begin(from, resource); err != nil {
			b.close()
			return nil, err
		}
	}
	return b, nil
}

// begin counts the objects of one resource.
func (b *book) begin(from follower, resource string) error {
	q := b.quota
	objects, revision, err := from.ListAt(resource, q.Namespace)
	if err != nil {
		return fmt.Errorf("count %s for quota %s: %w", resource, q.Name, err)
	}
	watch, err := from.Watch(resource, q.Namespace, revision)
	if err != nil {
		return fmt.Errorf("follow %s for quota %s: %w", resource, q.Name, err)
	}
	e := &entries{watch: watch, usage: map[types.UID]corev1.ResourceList{}, ending: map[types.UID]store.Object{}}
	b.entries[resource] = e
	for _, obj := range objects {
		b.arrived(obj)
		b.count(resource, e, obj)
	}
	return nil
}

// arrived ends the reservation of a write that was stored before the book's watch
// begins, which shows no event of it.
func (b *book) arrived(obj store.Object) {
	if r, ok := b.pending[obj.GetUID()]; ok && r.from != obj.GetResourceVersion() {
		delete(b.pending, obj.GetUID())
	}
}

// close stops following. The store would go on to sort events for the book.
func (b *book) close() {
	for _, e := range b.entries {
		e.watch.Stop()
	}
}

// usage is what the object takes of this quota.
func (b *book) usage(resource string, obj store.Object) corev1.ResourceList {
	if !inScope(b.quota, obj) {
		return nil
	}
	return quota.Mask(usageOf(resource, obj, b.now()), quota.ResourceNames(b.quota.Spec.Hard))
}

// count enters an object as it is now.
func (b *book) count(resource string, e *entries, obj store.Object) {
	uid := obj.GetUID()
	delete(e.ending, uid)
	if b.willCease(obj) {
		e.ending[uid] = obj
	}
	b.set(e, uid, b.usage(resource, obj))
}

func (b *book) willCease(obj store.Object) bool {
	last, ending := countsUntil(obj)
	return ending && !b.now().After(last)
}

func (b *book) set(e *entries, uid types.UID, usage corev1.ResourceList) {
	if old, ok := e.usage[uid]; ok {
		b.used = quota.Subtract(b.used, old)
		delete(e.usage, uid)
	}
	if len(usage) > 0 {
		b.used = quota.Add(b.used, usage)
		e.usage[uid] = usage
	}
}

// ended is a context that makes a watch give what it has and not wait.
var ended = func() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}()

// follow takes in what has been committed since.
func (b *book) follow() error {
	for resource, e := range b.entries {
		for {
			events, err := e.watch.Next(ended)
			if errors.Is(err, context.Canceled) {
				break
			}
			if err != nil {
				return err
			}
			for i := range events {
				b.take(resource, e, &events[i])
			}
		}
		for _, obj := range e.ending {
			if !b.willCease(obj) {
				b.count(resource, e, obj)
			}
		}
	}
	return nil
}

func (b *book) take(resource string, e *entries, event *store.Event) {
	uid := event.Object.GetUID()
	delete(b.pending, uid)
	if event.Type == store.Deleted {
		delete(e.ending, uid)
		b.set(e, uid, nil)
		return
	}
	b.count(resource, e, event.Object)
}

// taken is what is used, with the writes on their way.
func (b *book) taken() corev1.ResourceList {
	sum := b.used
	for _, r := range b.pending {
		sum = quota.Add(sum, r.usage)
	}
	return sum
}

// status is what the quota's status ought to say.
func (b *book) status() corev1.ResourceQuotaStatus {
	used := corev1.ResourceList{}
	for name := range b.quota.Spec.Hard {
		used[name] = b.used[name].DeepCopy()
	}
	return corev1.ResourceQuotaStatus{Hard: b.quota.Spec.Hard, Used: used}
}
