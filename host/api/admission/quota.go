package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	quota "k8s.io/apiserver/pkg/quota/v1"
)

// quotas keeps the books of all ResourceQuotas and refuses what goes beyond.
//
// A write reserves what it adds, under the lock that also guards the count, and
// the reservation ends with the write's own event or when the write fails. So
// no two writes can take the same room, and none takes room twice.
type quotas struct {
	objects view.Store
	from    follower
	now     func() time.Time

	mu      sync.Mutex
	version int64                       // of the quotas that the books are of
	books   map[string]map[string]*book // by namespace and name
}

// refresh opens books for new quotas, again for those whose spec changed, and
// closes those of quotas that are gone.
func (q *quotas) refresh(ctx context.Context) error {
	version := q.objects.Version(view.ResourceQuotas)
	if version == q.version && q.books != nil {
		return nil
	}
	all, err := view.List[*corev1.ResourceQuota](ctx, q.objects, view.ResourceQuotas, "")
	if err != nil {
		return err
	}
	books := map[string]map[string]*book{}
	for _, one := range all {
		b, err := q.bookOf(one)
		if err != nil {
			closeBooks(books, q.books)
			return err
		}
		if books[one.Namespace] == nil {
			books[one.Namespace] = map[string]*book{}
		}
		books[one.Namespace][one.Name] = b
	}
	closeBooks(q.books, books)
	q.books, q.version = books, version
	return nil
}

// bookOf is the quota's book, a new one if there is none that fits.
func (q *quotas) bookOf(one *corev1.ResourceQuota) (*book, error) {
	b := q.books[one.Namespace][one.Name]
	if b != nil && b.quota.UID == one.UID && apiequality.Semantic.DeepEqual(b.quota.Spec, one.Spec) {
		b.quota = one
		return b, nil
	}
	if b == nil {
		return openBook(q.from, one, q.now, map[types.UID]reservation{})
	}
	return q.reopen(b, one)
}

// reopen counts anew, and then reads what the old book has not: of a write whose
// object has come and gone already nothing else tells.
func (q *quotas) reopen(b *book, one *corev1.ResourceQuota) (*book, error) {
	fresh, err := openBook(q.from, one, q.now, b.pending)
	if err != nil {
		return nil, err
	}
	if err := b.follow(); err != nil && !errors.Is(err, store.ErrCompacted) {
		fresh.close()
		return nil, err
	}
	return fresh, nil
}

// closeBooks closes those that are not kept.
func closeBooks(books, kept map[string]map[string]*book) {
	for namespace, named := range books {
		for name, b := range named {
			if kept[namespace][name] != b {
				b.close()
			}
		}
	}
}

// follow brings a book up to date; one that fell behind the history is opened
// anew.
func (q *quotas) follow(b *book) error {
	err := b.follow()
	if !errors.Is(err, store.ErrCompacted) {
		return err
	}
	fresh, err := q.reopen(b, b.quota)
	if err != nil {
		return err
	}
	b.close()
	*b = *fresh
	return nil
}

func (q *quotas) validate(ctx context.Context, a *registry.Attributes) error {
	if a.Object == nil || a.Namespace == "" || q.objects.Version(view.ResourceQuotas) == 0 || !counts(a) {
		return nil
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.refresh(ctx); err != nil {
		return fmt.Errorf("look up the quotas: %w", err)
	}
	resource := a.Resource.String()
	reserved := map[*book]corev1.ResourceList{}
	for _, b := range q.books[a.Namespace] {
		if b.entries[resource] == nil {
			continue
		}
		if err := q.follow(b); err != nil {
			return fmt.Errorf("bring quota %s up to date: %w", b.quota.Name, err)
		}
		added, err := b.check(a, resource)
		if err != nil {
			return err
		}
		if len(added) > 0 {
			reserved[b] = added
		}
	}
	q.reserve(a, reserved)
	return nil
}

// counts tells whether the write can change what is used.
func counts(a *registry.Attributes) bool {
	switch a.Operation {
	case registry.Create:
		return a.Subresource == ""
	case registry.Update:
		switch a.Resource.Resource {
		case "pods":
			return a.Subresource == "" || a.Subresource == "resize"
		case "services", "persistentvolumeclaims":
			return a.Subresource == ""
		}
	}
	return false
}

// check gives what the write adds, or refuses it.
func (b *book) check(a *registry.Attributes, resource string) (corev1.ResourceList, error) {
	usage := b.usage(resource, a.Object)
	if len(usage) == 0 {
		if pod, ok := a.Object.(*corev1.Pod); !ok || !inScope(b.quota, pod) {
			return nil, nil
		}
	}
	if pod, ok := a.Object.(*corev1.Pod); ok && a.Operation == registry.Create {
		if err := unnamed(b.quota.Spec.Hard, pod); err != nil {
			return nil, forbid(a, "failed quota: %s: %w", b.quota.Name, err)
		}
	}
	if negative := quota.IsNegative(usage); len(negative) > 0 {
		return nil, forbid(a, "quota usage is negative for resource(s): %s", names(negative))
	}
	added := usage
	if a.Old != nil {
		added = quota.SubtractWithNonNegativeResult(usage, b.usage(resource, a.Old))
	}
	added = quota.RemoveZeros(added)
	if len(added) == 0 {
		return nil, nil
	}
	taken := b.taken()
	after := quota.Mask(quota.Add(taken, added), quota.ResourceNames(added))
	if fits, beyond := quota.LessThanOrEqual(after, b.quota.Spec.Hard); !fits {
		return nil, forbid(a, "exceeded quota: %s, requested: %s, used: %s, limited: %s", b.quota.Name,
			amounts(added, beyond), amounts(taken, beyond), amounts(b.quota.Spec.Hard, beyond))
	}
	return added, nil
}

// reserve keeps room until the write's event comes, or until it fails.
func (q *quotas) reserve(a *registry.Attributes, reserved map[*book]corev1.ResourceList) {
	if len(reserved) == 0 {
		return
	}
	uid, from := a.Object.GetUID(), ""
	if a.Old != nil {
		from = a.Old.GetResourceVersion()
	}
	for b, usage := range reserved {
		b.pending[uid] = reservation{usage, from}
	}
	a.OnRollback(func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		for b := range reserved {
			delete(b.pending, uid)
		}
	})
}

func names(all []corev1.ResourceName) string {
	texts := make([]string, len(all))
	for i, name := range all {
		texts[i] = string(name)
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

func amounts(list corev1.ResourceList, of []corev1.ResourceName) string {
	texts := make([]string, len(of))
	for i, name := range of {
		value := list[name]
		texts[i] = string(name) + "=" + value.String()
	}
	slices.Sort(texts)
	return strings.Join(texts, ",")
}

// Run keeps the status of the quotas, until ctx ends.
func (q *quotas) Run(ctx context.Context) error {
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
		if q.objects.Version(view.ResourceQuotas) == 0 {
			continue
		}
		ops, err := q.outdated(ctx)
		if err != nil {
			continue // the next tick asks again
		}
		for _, op := range ops {
			if _, err := q.objects.Commit(ctx, op); err != nil && ctx.Err() != nil {
				return nil
			}
		}
	}
}

// outdated are the writes that bring the status of the quotas up to date.
func (q *quotas) outdated(ctx context.Context) ([]store.Op, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.refresh(ctx); err != nil {
		return nil, err
	}
	var ops []store.Op
	for _, books := range q.books {
		for _, b := range books {
			if err := q.follow(b); err != nil {
				return nil, err
			}
			status := b.status()
			if apiequality.Semantic.DeepEqual(status, b.quota.Status) {
				continue
			}
			fresh := b.quota.DeepCopy()
			fresh.Status = status
			ops = append(ops, store.Op{
				Kind: store.Update, Key: view.KeyOf(view.ResourceQuotas, fresh), Object: fresh, Expect: view.Revision(b.quota),
			})
		}
	}
	return ops, nil
}
