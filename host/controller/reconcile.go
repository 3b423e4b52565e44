package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// errStale says that another writer came between question and answer: the
// answer is dropped, and the guest asked again from the newer state.
var errStale = errors.New("the answer is of an older state")

// errGone says that there is no such parent.
var errGone = errors.New("the parent is gone")

// ask reconciles a parent, and sees to it that it is asked about again.
func (d *Driver) ask(ctx context.Context, name types.NamespacedName) {
	last, again, err := d.reconcile(ctx, name)
	now := d.Now()
	d.pace.took(name, now.Sub(last.Asked), now)
	switch {
	case ctx.Err() != nil:
		return
	case errors.Is(err, errStale):
		d.queue.AddRateLimited(name)
		return
	case errors.Is(err, errGone):
		d.forget(name)
		return
	case err != nil:
		d.Log.Warn("reconcile", "policy", d.Guest.Name(), "parent", name.String(), "err", err)
		d.Note(slog.LevelWarn, fmt.Sprintf("%s %s: %v", d.parent.kind.Kind, name, err))
		d.queue.AddRateLimited(name)
		last.Error = err.Error()
	default:
		d.queue.Forget(name)
		if again = min(again, maxWait); again > 0 {
			last.Again = last.Asked.Add(again)
			d.queue.AddAfter(name, again)
		}
	}
	d.outcomes.keep(name, last)
}

// reconcile asks the guest about one parent and applies its answer.
func (d *Driver) reconcile(ctx context.Context, name types.NamespacedName) (last Outcome, again time.Duration, err error) {
	last.Asked = d.Now()
	defer d.recovered(name, &err)
	if err := d.askOfGone(ctx, name); err != nil {
		return last, 0, err
	}
	o, ok := d.Objects.Get(d.parent.key(name.Namespace, name.Name))
	if !ok {
		return last, 0, errGone
	}
	if !d.Trial.takes(o.GetUID()) {
		return last, 0, nil
	}
	if err := d.mayRead(ctx, o); err != nil {
		return last, 0, err
	}
	g, err := d.gather(o)
	if err != nil {
		return last, 0, err
	}
	d.pace.tells(name, len(g.Children)+len(g.Related))
	g.Refused = d.refusals.of(o.GetUID())
	out, err := d.answer(ctx, g)
	if err != nil {
		return last, 0, err
	}
	last.Why, last.status = out.Why, out.Status
	if d.Trial.Shadow {
		again, err = d.shadowed(ctx, g, out)
		return last, again, err
	}
	d.compare(ctx, g, out)
	done, err := d.apply(ctx, g, out)
	if err != nil {
		return last, 0, err
	}
	last.Refused, last.status = done.refused, done.out.Status
	d.refusals.keep(o.GetUID(), done.refused)
	d.memories.keep(o.GetUID(), done.out.Memory)
	d.checkRest(ctx, g, out, done)
	if done.refused != "" {
		d.Note(slog.LevelWarn, fmt.Sprintf("%s %s: %s", d.parent.kind.Kind, name, done.refused))
	}
	switch again = time.Duration(out.RequeueAfterNanos); {
	case done.refused != "" && g.Refused != "":
		return last, 0, errors.New(done.refused) // the guest knows: a pause, and once more
	case done.refused != "" || done.unfinished:
		d.pace.urge(name)
		again = 1 // at once
	}
	return last, again, nil
}

func (d *Driver) forget(name types.NamespacedName) {
	d.pace.forget(name)
	d.outcomes.forget(name)
	d.queue.Forget(name)
}

// mayRead says whether the guest may be told of a parent: its ServiceAccount must
// be allowed to list and watch all that the manifest names, where it is.
func (d *Driver) mayRead(ctx context.Context, parent store.Object) error {
	for _, w := range slices.Concat([]kindWatch{d.parent}, d.children, d.related) {
		in := w.readIn(parent)
		for _, verb := range []string{"list", "watch"} {
			if err := d.Access.May(ctx, verb, w.Resource, "", in, ""); err != nil {
				return err
			}
		}
	}
	return nil
}

// readIn is the namespace that objects of the kind are read in for a parent, empty
// for all of them.
func (w *kindWatch) readIn(parent store.Object) string {
	switch w.kind.By {
	case abi.ByCluster, abi.ByReference:
		return ""
	case abi.ByName:
		if ref, _ := referenceAt(parent, w.kind.Path); ref != nil {
			return ref.Namespace
		}
	}
	return parent.GetNamespace()
}

// event tells of an object, if the guest's ServiceAccount may.
func (d *Driver) event(ctx context.Context, about store.Object, kind, reason, message string) {
	if err := d.Access.May(ctx, "create", "events", "", about.GetNamespace(), ""); err != nil {
		d.Note(slog.LevelWarn, fmt.Sprintf("event %s is not written: %v", reason, err))
		return
	}
	d.Recorder.Event(about, kind, reason, message)
}

// recovered makes a panic over what a guest made up the failure of this parent
// alone: the host does more than this.
func (d *Driver) recovered(name types.NamespacedName, err *error) {
	if p := recover(); p != nil {
		d.Log.Error("reconcile panicked", "policy", d.Guest.Name(), "parent", name.String(), "panic", p, "stack", string(debug.Stack()))
		*err = fmt.Errorf("the host panicked over it, and its log says where: %v", p)
	}
}
