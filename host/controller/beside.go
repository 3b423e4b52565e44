package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// Trial says which part a driver has in the trial of a guest beside another.
// The zero value is that of a driver that decides alone.
type Trial struct {
	// Takes says whether the driver's guest decides about a parent; nil is all of
	// them. What it does not decide about is another driver's.
	Takes func(parent types.UID) bool
	// Shadow: the guest's answers are stored nowhere.
	Shadow bool
	// Live gives the drivers that decide, or would if there were no trial: about
	// each parent the guest's answer is compared with those of them that are of
	// the same kind of parents, and take it.
	Live func() []*Driver
	// Compared is told what the two want, in the same order where they want the
	// same.
	Compared func(parent store.Object, live, tried []Effect)
	// NotCompared is told of each parent about which who decides has no answer; that
	// of the one on trial is as good as ever.
	NotCompared func()
	// Beside: the driver never runs. Another asks it what its guest would do, of each
	// state that the other's guest is asked about.
	Beside bool
}

func (t *Trial) takes(parent types.UID) bool { return t.Takes == nil || t.Takes(parent) }

// Effect is one thing that an answer would do. Text tells it to people; two
// effects are the same if their keys are.
type Effect struct{ Text, Key string }

// compare asks the live drivers about the state that the guest was asked about.
// Where that has changed meanwhile nothing is compared: the guest is asked again.
func (d *Driver) compare(ctx context.Context, g *gathered, out *abi.ReconcileResult) {
	if d.Trial.Compared == nil {
		return
	}
	tried, err := d.effects(g, out)
	if err != nil {
		return // it is refused when it is applied
	}
	var live []Effect
	for _, other := range d.Trial.Live() {
		if other.parent.Resource != d.parent.Resource || !other.Trial.takes(g.parent.GetUID()) {
			continue
		}
		theirs, same, err := other.would(ctx, g)
		if err != nil && ctx.Err() == nil {
			d.Log.Warn("compare with the live controller", "policy", other.Guest.Name(), "parent", nameOf(g.parent).String(), "err", err)
			d.Trial.NotCompared()
		}
		if err != nil || !same {
			return
		}
		live = append(live, theirs...)
	}
	d.Trial.Compared(g.parent, live, tried)
}

// would is what the guest wants of a parent that another was asked about; same
// says whether it was asked about the same state.
func (d *Driver) would(ctx context.Context, about *gathered) (want []Effect, same bool, err error) {
	parent, ok := d.Objects.Get(d.parent.key(about.parent.GetNamespace(), about.parent.GetName()))
	if !ok {
		return nil, false, nil
	}
	if err := d.mayRead(ctx, parent); err != nil {
		return nil, false, err
	}
	g, err := d.gather(parent)
	if err != nil || !g.sameAs(about) {
		return nil, false, err
	}
	g.Now, g.Refused, g.there = about.Now, about.Refused, about.there
	if g.Seed != 0 && about.Seed != 0 {
		g.Seed = about.Seed
	}
	out, err := d.Guest.Reconcile(ctx, &g.Input)
	if err != nil {
		return nil, false, err
	}
	if want, err = d.effects(g, out); err != nil {
		return nil, false, err
	}
	if d.Trial.Beside {
		d.memories.keep(parent.GetUID(), out.Memory)
	}
	return want, true, nil
}

// sameAs tells whether two gatherings saw the same of what both looked at.
func (g *gathered) sameAs(other *gathered) bool {
	if len(g.Children) != len(other.Children) {
		return false
	}
	for uid, mine := range g.byUID {
		if theirs, both := other.byUID[uid]; both && theirs.o.GetResourceVersion() != mine.o.GetResourceVersion() {
			return false
		}
	}
	return true
}

// effects are what an answer would do, sorted. When to ask again, events and why
// are no effects.
func (d *Driver) effects(g *gathered, out *abi.ReconcileResult) ([]Effect, error) {
	p := &plan{d: d, gathered: g}
	var all []Effect
	about := func(verb, uid, key string) error {
		one, err := p.find(uid)
		if err != nil {
			return err
		}
		text := fmt.Sprintf("%s %s %s", verb, one.w.kind.Kind, one.o.GetName())
		all = append(all, Effect{text, text + key})
		return nil
	}
	for _, list := range []struct {
		verb string
		uids []string
	}{{"adopts", out.Adopt}, {"releases", out.Release}} {
		for _, uid := range list.uids {
			if err := about(list.verb, uid, ""); err != nil {
				return nil, err
			}
		}
	}
	for i := range out.Delete {
		if err := about("deletes", out.Delete[i].UID, out.Delete[i].PropagationPolicy); err != nil {
			return nil, err
		}
	}
	for i := range out.Patch {
		if err := about("patches", out.Patch[i].UID, out.Patch[i].Subresource+compact(out.Patch[i].Patch)); err != nil {
			return nil, err
		}
	}
	var so compared
	for i := range out.Create {
		made, err := p.creates(&out.Create[i], &so)
		if err != nil {
			return nil, err
		}
		all = append(all, made...)
	}
	status, err := p.gives(out.Status)
	if err != nil {
		return nil, err
	}
	all = append(all, status...)
	slices.SortFunc(all, func(a, b Effect) int { return strings.Compare(a.Key, b.Key) })
	return all, nil
}

// maxCompared is how much of its creations an answer is compared by, in bytes.
const maxCompared = 4 << 20

// compared bounds what is written out of creations to be compared.
type compared struct{ count, size int }

// creates are the effects of one creation. What is beyond a commit's creations, or
// too much to hold beside another answer, is told of by its number.
func (p *plan) creates(c *abi.Creation, so *compared) ([]Effect, error) {
	w, object, err := p.stamp(c)
	if err != nil {
		return nil, err
	}
	var all []Effect
	for k := range c.Count {
		if so.count >= MaxCreations || so.size >= maxCompared {
			text := fmt.Sprintf("creates %d more of %s, which are not compared", c.Count-k, w.kind.Kind)
			return append(all, Effect{text, text}), nil
		}
		so.count++
		one := object.DeepCopyObject().(store.Object)
		if len(c.Each) > 0 {
			if err := merge(one, c.Each[k]); err != nil {
				return nil, err
			}
		}
		name := one.GetName()
		if have := p.found(p.d, w.key(one.GetNamespace(), name)); name != "" && have != nil && (c.Unowned || p.owns(have)) {
			continue // it is there
		}
		data, err := json.Marshal(one)
		if err != nil {
			return nil, err
		}
		so.size += len(data)
		if name == "" {
			name = one.GetGenerateName() + "…"
		}
		all = append(all, Effect{"creates " + w.kind.Kind + " " + name, "creates " + string(data)})
	}
	return all, nil
}

// found is what was stored under a key when an answer about this state was first
// written out, or nil.
func (g *gathered) found(d *Driver, key store.Key) store.Object {
	have, looked := g.there[key]
	if !looked {
		if g.there == nil {
			g.there = map[store.Key]store.Object{}
		}
		have, _ = d.Objects.Get(key)
		g.there[key] = have
	}
	return have
}

const givesStatus = "gives the status "

// gives is the effect of a status: none where the parent has it.
func (p *plan) gives(status json.RawMessage) ([]Effect, error) {
	if len(status) == 0 {
		return nil, nil
	}
	next, err := withStatus(p.parent, status)
	if err != nil || next == p.parent {
		return nil, err
	}
	data, err := json.Marshal(reflect.ValueOf(next).Elem().FieldByName("Status").Interface())
	text := givesStatus + string(data)
	return []Effect{{text, text}}, err
}

func compact(data json.RawMessage) string {
	var b bytes.Buffer
	if json.Compact(&b, data) != nil {
		return string(data)
	}
	return b.String()
}

// shadowed asks a shadow about one parent: what it says is compared, and stored
// nowhere.
func (d *Driver) shadowed(ctx context.Context, g *gathered, out *abi.ReconcileResult) (again time.Duration, err error) {
	if _, err := d.effects(g, out); err != nil {
		return 0, err // what a live one would be refused
	}
	d.memories.keep(g.parent.GetUID(), out.Memory)
	d.compare(ctx, g, out)
	return time.Duration(out.RequeueAfterNanos), nil
}
