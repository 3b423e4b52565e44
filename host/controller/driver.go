package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/host/store"
)

// Indexes of the store that the driver reads.
const (
	// IndexByOwner holds objects by the UID of their controller.
	IndexByOwner = "controller"
	// IndexOrphans holds objects without a controller by their namespace.
	IndexOrphans = "orphans"
)

// Objects is the part of the store that the driver uses.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Indexed(resource, index, value string) []store.Object
	Watch(resource, namespace string, from int64) (*store.Watch, error)
	Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error)
}

// Writer makes and removes children, as a user of the API would.
type Writer interface {
	Create(ctx context.Context, resource string, object store.Object) error
	// Delete removes exactly this object: its UID is a precondition.
	Delete(ctx context.Context, resource string, object store.Object) error
}

// Access tells what the guest's ServiceAccount may do.
type Access interface {
	// May is nil, or an error that says what is forbidden to whom. The resource is
	// the store's name for it.
	May(ctx context.Context, verb, resource, subresource, namespace, name string) error
}

// Recorder tells users what happened to a parent.
type Recorder interface {
	Event(about store.Object, kind, reason, message string)
}

// Type is what the host knows of a kind.
type Type struct {
	// Resource is the store's name for it.
	Resource string
	New      func() store.Object
}

// Config is what a Driver needs.
type Config struct {
	Guest   Guest
	Objects Objects
	// Writer writes as the guest's ServiceAccount, and Access tells what that may.
	Writer   Writer
	Access   Access
	Recorder Recorder
	// Note tells whoever runs the policy what keeps it from its work.
	Note func(level slog.Level, message string)
	// Types finds a kind that is served.
	Types func(apiVersion, kind string) (Type, bool)
	Now   func() time.Time
	Log   *slog.Logger
	// Workers is how many parents are written for at a time; 4 by default.
	Workers int
}

// coalesce is how long changes of children wait for more of them, so that a
// parent with thousands of children is not reconciled for each.
const coalesce = 20 * time.Millisecond

// Driver runs one guest.
type Driver struct {
	Config
	parent   watched
	children []watched
	related  []watched
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	pace     pace
}

// watched is a kind with all that is needed to read it.
type watched struct {
	kind Kind
	Type
	fields *fields
}

// New checks what the guest declares against what is served.
func New(cfg Config) (*Driver, error) {
	d := &Driver{Config: cfg}
	if d.Workers == 0 {
		d.Workers = 4
	}
	var err error
	if d.parent, err = d.resolve(cfg.Guest.Parent()); err != nil {
		return nil, err
	}
	for _, k := range cfg.Guest.Children() {
		w, err := d.resolve(k)
		if err != nil {
			return nil, err
		}
		d.children = append(d.children, w)
	}
	for _, k := range cfg.Guest.Related() {
		w, err := d.resolve(k)
		if err != nil {
			return nil, err
		}
		d.related = append(d.related, w)
	}
	return d, nil
}

func (d *Driver) resolve(k Kind) (watched, error) {
	t, ok := d.Types(k.APIVersion, k.Kind)
	if !ok {
		return watched{}, fmt.Errorf("controller %s asks for %s %s, which this host does not serve", d.Guest.Name(), k.APIVersion, k.Kind)
	}
	f, err := compile(reflect.TypeOf(t.New()), k.Fields)
	if err != nil {
		return watched{}, fmt.Errorf("controller %s: %w", d.Guest.Name(), err)
	}
	return watched{k, t, f}, nil
}

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, time.Minute)
	d.queue = workqueue.NewTypedRateLimitingQueue[types.NamespacedName](limiter)
	// Children and what is related are followed from before the first parent is
	// looked at: what becomes of them meanwhile would be lost.
	since, err := d.revisions(slices.Concat(d.children, d.related))
	if err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.follow(ctx, d.parent, d.parentChanged, 0) })
	for i, w := range d.children {
		group.Go(func() error { return d.follow(ctx, w, d.childChanged, since[i]) })
	}
	for i, w := range d.related {
		group.Go(func() error { return d.follow(ctx, w, d.relatedChanged, since[len(d.children)+i]) })
	}
	for range d.Workers {
		group.Go(func() error { return d.work(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		d.queue.ShutDown()
		return nil
	})
	return group.Wait()
}

// revisions are where the kinds stand.
func (d *Driver) revisions(kinds []watched) ([]int64, error) {
	none := store.ListOptions{Match: func(store.Object) bool { return false }}
	since := make([]int64, len(kinds))
	for i := range kinds {
		list, err := d.Objects.List(kinds[i].Resource, "", none)
		if err != nil {
			return nil, err
		}
		since[i] = list.Revision
	}
	return since, nil
}

// follow reports every change of a kind since a revision; if that is 0, what is
// there too.
func (d *Driver) follow(ctx context.Context, w watched, changed func(store.Object), since int64) error {
	for {
		if since == 0 {
			list, err := d.Objects.List(w.Resource, "", store.ListOptions{})
			if err != nil {
				return stopped(ctx, err)
			}
			for _, o := range list.Items {
				changed(o)
			}
			since = list.Revision
		}
		watch, err := d.Objects.Watch(w.Resource, "", since)
		for err == nil {
			var events []store.Event
			events, err = watch.Next(ctx)
			for i := range events {
				changed(events[i].Object)
				if events[i].Prev != nil {
					d.moved(events[i].Prev, events[i].Object, changed)
				}
			}
		}
		if !errors.Is(err, store.ErrCompacted) {
			return stopped(ctx, err)
		}
		since = 0 // after a gap all parents are looked at again
	}
}

// moved reports the state before too where another parent was concerned.
func (d *Driver) moved(before, after store.Object, changed func(store.Object)) {
	was, is := metav1.GetControllerOf(before), metav1.GetControllerOf(after)
	if was != nil && (is == nil || is.UID != was.UID) || !maps.Equal(before.GetLabels(), after.GetLabels()) {
		changed(before)
	}
}

// stopped turns the end that was asked for into success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

func (d *Driver) parentChanged(o store.Object) {
	d.queue.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()})
}

// childChanged wakes the child's parent, or those that might adopt it.
func (d *Driver) childChanged(o store.Object) {
	if owner := metav1.GetControllerOf(o); owner != nil {
		if owner.Kind == d.parent.kind.Kind && owner.APIVersion == d.parent.kind.APIVersion {
			d.queue.AddAfter(types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name}, coalesce)
		}
		return
	}
	if len(o.GetLabels()) > 0 {
		d.relatedChanged(o)
	}
}

// relatedChanged wakes the parents whose selector matches.
func (d *Driver) relatedChanged(o store.Object) {
	parents, err := d.Objects.List(d.parent.Resource, o.GetNamespace(), store.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range parents.Items {
		if selectorOf(p).Matches(labelSet(o)) {
			d.queue.AddAfter(types.NamespacedName{Namespace: p.GetNamespace(), Name: p.GetName()}, coalesce)
		}
	}
}

func (d *Driver) work(ctx context.Context) error {
	for {
		name, shutdown := d.queue.Get()
		if shutdown {
			return nil
		}
		if wait := d.pace.wait(name, d.Now()); wait > 0 {
			d.queue.AddAfter(name, wait)
			d.queue.Done(name)
			continue
		}
		again, err := d.reconcile(ctx, name)
		switch {
		case ctx.Err() != nil:
		case err != nil:
			d.Log.Warn("reconcile", "policy", d.Guest.Name(), "parent", name.String(), "err", err)
			d.Note(slog.LevelWarn, fmt.Sprintf("%s %s: %v", d.parent.kind.Kind, name, err))
			d.queue.AddRateLimited(name)
		default:
			d.queue.Forget(name)
			if again > 0 {
				d.queue.AddAfter(name, min(again, maxWait))
			}
		}
		d.queue.Done(name)
	}
}
