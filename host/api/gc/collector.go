package gc

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"time"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/util/workqueue"
)

// Collector removes what nothing holds.
type Collector struct {
	registry *registry.Registry
	store    *store.Store
	log      *slog.Logger
	kinds    []*kind.Kind
	queue    workqueue.TypedRateLimitingInterface[store.Key]
}

// New makes a collector over all kinds that are stored.
func New(reg *registry.Registry, log *slog.Logger) *Collector {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	c := &Collector{registry: reg, store: reg.Store(), log: log}
	for _, k := range kind.All {
		if k.Strategy != nil {
			c.kinds = append(c.kinds, k)
		}
	}
	return c
}

// How long a step that did not work waits before it is tried again.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = 30 * time.Second
)

// workers take steps at the same time; one object is never in two.
const workers = 4

// Run collects until ctx ends.
func (c *Collector) Run(ctx context.Context) error {
	c.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](firstWait, longestWait))
	group, ctx := errgroup.WithContext(ctx)
	for _, k := range c.kinds {
		group.Go(func() error { return c.follow(ctx, k) })
	}
	for range workers {
		group.Go(func() error { c.work(ctx); return nil })
	}
	group.Go(func() error {
		<-ctx.Done()
		c.queue.ShutDown()
		return nil
	})
	err := group.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, store.ErrClosed)) {
		return nil
	}
	return err
}

// follow looks at all objects of a kind and then at each change.
func (c *Collector) follow(ctx context.Context, k *kind.Kind) error {
	for {
		list, err := c.store.List(k.StoreName(), "", store.ListOptions{})
		if err != nil {
			return err
		}
		for _, obj := range list.Items {
			c.enqueue(k, obj)
		}
		err = c.changes(ctx, k, list.Revision)
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

func (c *Collector) changes(ctx context.Context, k *kind.Kind, from int64) error {
	w, err := c.store.Watch(k.StoreName(), "", from)
	if err != nil {
		return err
	}
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for i := range events {
			if events[i].Type == store.Deleted {
				c.bereave(events[i].Object)
				continue
			}
			obj, prev := events[i].Object, events[i].Prev
			held := prev != nil && reflect.DeepEqual(prev.GetOwnerReferences(), obj.GetOwnerReferences())
			if prev != nil && !held {
				c.waiting(prev) // it may have let them go
			}
			if !held || obj.GetDeletionTimestamp() != nil {
				c.enqueue(k, obj)
			}
		}
	}
}

// enqueue notes an object that there may be something to do about.
func (c *Collector) enqueue(k *kind.Kind, obj store.Object) {
	if len(obj.GetOwnerReferences()) == 0 && obj.GetDeletionTimestamp() == nil {
		return
	}
	c.queue.Add(k.Key(obj.GetNamespace(), obj.GetName()))
}

// waiting notes the owners that may be waiting for an object.
func (c *Collector) waiting(obj store.Object) {
	for _, ref := range obj.GetOwnerReferences() {
		if owner, ok := c.find(ref, obj.GetNamespace()); ok && owner.GetDeletionTimestamp() != nil {
			if k, ok := kind.Of(owner); ok {
				c.queue.Add(k.Key(owner.GetNamespace(), owner.GetName()))
			}
		}
	}
}

// bereave notes those that hung on an object which is gone, and those who
// waited for it to go.
func (c *Collector) bereave(obj store.Object) {
	for _, d := range c.dependents(obj) {
		if k, ok := kind.Of(d); ok {
			c.queue.Add(k.Key(d.GetNamespace(), d.GetName()))
		}
	}
	c.waiting(obj)
	if ns := obj.GetNamespace(); ns != "" {
		if n, ok := c.store.Get(namespaceKind.Key("", ns)); ok && n.GetDeletionTimestamp() != nil {
			c.queue.Add(namespaceKind.Key("", ns))
		}
	}
}

// dependents are the objects with a reference to the object's uid.
func (c *Collector) dependents(obj store.Object) []store.Object {
	var all []store.Object
	for _, k := range c.kinds {
		all = append(all, c.store.Indexed(k.StoreName(), registry.IndexOwner, string(obj.GetUID()))...)
	}
	return all
}

func (c *Collector) work(ctx context.Context) {
	for {
		key, shutdown := c.queue.Get()
		if shutdown {
			return
		}
		err := c.step(ctx, key)
		switch {
		case err == nil:
			c.queue.Forget(key)
		case ctx.Err() == nil:
			if !errors.Is(err, errNotYet) {
				c.log.Debug("collect again later", "key", key.String(), "err", err)
			}
			c.queue.AddRateLimited(key)
		}
		c.queue.Done(key)
	}
}

// errNotYet makes a step be tried again when others have had time.
var errNotYet = errors.New("not yet")
