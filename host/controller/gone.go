package controller

import (
	"context"
	"maps"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// ghosts are parents that are gone, about whose children the guest is asked once
// more.
type ghosts struct {
	mu   sync.Mutex
	last map[types.NamespacedName]map[types.UID]store.Object
}

// put remembers a parent. What is known of it already is more than the reference
// of a child says.
func (g *ghosts) put(o store.Object, byReference bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := nameOf(o)
	if _, known := g.last[name][o.GetUID()]; known && byReference {
		return
	}
	if g.last == nil {
		g.last = map[types.NamespacedName]map[types.UID]store.Object{}
	}
	if g.last[name] == nil {
		g.last[name] = map[types.UID]store.Object{}
	}
	g.last[name][o.GetUID()] = o
}

func (g *ghosts) of(name types.NamespacedName) []store.Object {
	g.mu.Lock()
	defer g.mu.Unlock()
	return slices.Collect(maps.Values(g.last[name]))
}

func (g *ghosts) forget(o store.Object) {
	g.mu.Lock()
	defer g.mu.Unlock()
	name := nameOf(o)
	if delete(g.last[name], o.GetUID()); len(g.last[name]) == 0 {
		delete(g.last, name)
	}
}

// gone notes a parent that is in the store no more.
func (d *Driver) gone(o store.Object) {
	if d.parent.kind.Gone {
		d.ghosts.put(d.asGone(o.DeepCopyObject().(store.Object)), false)
	}
}

func (d *Driver) asGone(o store.Object) store.Object {
	o.SetResourceVersion("")
	if o.GetDeletionTimestamp() == nil {
		o.SetDeletionTimestamp(&metav1.Time{Time: d.Now()})
	}
	return o
}

// noteOwner notes the owner of a child, if that is gone.
func (d *Driver) noteOwner(namespace string, owner *metav1.OwnerReference) (gone bool) {
	if !d.parent.kind.Gone || !refersTo(owner, &d.parent.kind) {
		return false
	}
	if have, ok := d.Objects.Get(d.parent.key(namespace, owner.Name)); ok && have.GetUID() == owner.UID {
		return false
	}
	o := d.parent.New()
	o.SetNamespace(namespace)
	o.SetName(owner.Name)
	o.SetUID(owner.UID)
	d.ghosts.put(d.asGone(o), true)
	return true
}

// findGone looks for children whose parents went while nobody looked.
func (d *Driver) findGone() error {
	if !d.parent.kind.Gone {
		return nil
	}
	for i := range d.children {
		list, err := d.Objects.List(d.children[i].Resource, "", store.ListOptions{})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			if owner := metav1.GetControllerOfNoCopy(o); owner != nil && d.noteOwner(o.GetNamespace(), owner) {
				d.queue.Add(types.NamespacedName{Namespace: o.GetNamespace(), Name: owner.Name})
			}
		}
	}
	return nil
}

// askOfGone asks about the children of parents that are gone.
func (d *Driver) askOfGone(ctx context.Context, name types.NamespacedName) error {
	for _, o := range d.ghosts.of(name) {
		if !d.Trial.takes(o.GetUID()) || d.Trial.Shadow {
			d.ghosts.forget(o)
			continue
		}
		if err := d.mayRead(ctx, o); err != nil {
			return err
		}
		for more := true; more; {
			var err error
			if more, err = d.letGo(ctx, o); err != nil {
				return err
			}
		}
		d.ghosts.forget(o)
	}
	return nil
}

// letGo does what the guest wants of the children of a parent that is gone. More
// says that it goes by steps, and that this one did something: nobody else would
// ask for the next.
func (d *Driver) letGo(ctx context.Context, gone store.Object) (more bool, err error) {
	g, err := d.gather(gone)
	if err != nil {
		return false, err
	}
	out, err := d.put(ctx, g)
	if err != nil {
		return false, err
	}
	done, err := d.apply(ctx, g, &abi.ReconcileResult{Release: out.Release, Patch: out.Patch, Delete: out.Delete})
	if err != nil {
		return false, err
	}
	return !done.empty && (out.Step || done.unfinished), nil
}
