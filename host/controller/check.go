package controller

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
)

// sampled is how many answers there are to one that is checked.
const sampled = 1000

// Rules that answers are checked against.
const (
	// RulePure: the same question has the same answer.
	RulePure = "pure"
	// RuleIdempotent: an answer asks for nothing of the state that it made.
	RuleIdempotent = "idempotent"
)

// Rules are all of them.
var Rules = []string{RulePure, RuleIdempotent}

// checked counts questions and stored answers, for those that are checked.
type checked struct{ asked, stored atomic.Uint64 }

// answer asks the guest, and now and then the same once more: one that answers by
// more than what it is asked cannot be replayed, compared or trusted in a trial,
// and whoever runs it is told.
func (d *Driver) answer(ctx context.Context, g *gathered) (*abi.ReconcileResult, error) {
	out, err := d.put(ctx, g)
	if errors.As(err, new(*wire.TooLargeError)) {
		d.event(ctx, g.parent, v1.EventTypeWarning, "TooManyObjects", err.Error())
	}
	if err != nil || d.checked.asked.Add(1)%d.Sample != 0 {
		return out, err
	}
	again, err := d.Guest.Reconcile(ctx, &g.Input)
	if err != nil {
		return nil, fmt.Errorf("asked twice about the same state: %w", err)
	}
	if what := difference(out, again); what != "" {
		d.broke(RulePure, g, "asked twice about the same state it answers differently: "+what)
	}
	return out, nil
}

// put puts a question to the guest, and records it.
func (d *Driver) put(ctx context.Context, g *gathered) (*abi.ReconcileResult, error) {
	in := g.Input
	if d.Record != nil {
		in.Asked = func(question, answer []byte, err error) {
			d.Record(g.parent, time.Unix(0, g.Now), question, answer, err)
		}
	}
	return d.Guest.Reconcile(ctx, &in)
}

func (d *Driver) broke(rule string, g *gathered, what string) {
	d.Broke(rule, fmt.Sprintf("%s %s: %s", d.parent.kind.Kind, nameOf(g.parent), what))
}

// difference is what two answers first differ in, "" where they are the same.
func difference(a, b *abi.ReconcileResult) string {
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"adopt", a.Adopt, b.Adopt}, {"release", a.Release, b.Release}, {"patch", a.Patch, b.Patch}, {"delete", a.Delete, b.Delete},
		{"create", a.Create, b.Create}, {"status", a.Status, b.Status}, {"events", a.Events, b.Events},
		{"requeueAfterNanos", a.RequeueAfterNanos, b.RequeueAfterNanos}, {"step", a.Step, b.Step}, {"why", a.Why, b.Why}, {"memory", a.Memory, b.Memory},
	} {
		one, errA := json.Marshal(part.a)
		other, errB := json.Marshal(part.b)
		if errA != nil || errB != nil || string(one) != string(other) {
			return fmt.Sprintf("%s was %.200s, then %.200s", part.name, one, other)
		}
	}
	return ""
}

// checkRest asks now and then about the state that an answer has just made, and
// tells of a guest that wants more of it (see the package's comment).
func (d *Driver) checkRest(ctx context.Context, g *gathered, out *abi.ReconcileResult, done *plan) {
	if done.empty || done.refused != "" || done.unfinished || out.Step || d.checked.stored.Add(1)%d.Sample != 0 {
		return
	}
	parent, ok := d.Objects.Get(d.parent.key(g.parent.GetNamespace(), g.parent.GetName()))
	if !ok {
		return
	}
	next, err := d.gather(parent)
	if err != nil || !done.made(next) {
		return
	}
	next.Now, next.Seed = g.Now, g.Seed
	more, err := d.Guest.Reconcile(ctx, &next.Input)
	if err != nil {
		return // the next question finds it out, and tells
	}
	if want := d.wants(ctx, next, more, done.objects); want != "" {
		d.broke(RuleIdempotent, g, "of the state that its own answer made it wants more: "+want)
	}
}

// made tells whether what was gathered is just what this answer made of what it was
// asked about: each object is as it was then or as the answer's commit left it, and
// what came or went did so by the answer.
func (p *plan) made(next *gathered) bool {
	written := map[string]bool{}
	for _, o := range p.stored {
		written[o.GetResourceVersion()] = true
	}
	was := p.told()
	for uid, is := range next.told() {
		then, known := was[uid]
		delete(was, uid)
		if !written[is.Object.GetResourceVersion()] && (!known || !sameAsTold(then, is)) {
			return false
		}
	}
	for uid := range was {
		one := p.byUID[uid]
		now, ok := p.d.Objects.Get(one.key())
		if ok = ok && string(now.GetUID()) == uid; ok == p.gone[uid] || ok && !written[now.GetResourceVersion()] {
			return false // others took it away, or changed it
		}
	}
	return true
}

// sameAsTold tells whether a guest is told the same of an object. Its own memory is
// a part of its answer.
func sameAsTold(a, b *Object) bool {
	for i := range a.Fields {
		if fact := i - len(a.Kind.Fields); fact >= 0 && a.Kind.Facts[fact] == abi.FactMemory {
			continue
		}
		if !bytes.Equal(a.Fields[i], b.Fields[i]) {
			return false
		}
	}
	return a.Object.GetResourceVersion() == b.Object.GetResourceVersion() && reflect.DeepEqual(a.Pod, b.Pod)
}

// told are all objects of a question by UID.
func (g *gathered) told() map[string]*Object {
	all := map[string]*Object{string(g.Parent.Object.GetUID()): &g.Parent}
	for _, list := range [][]Object{g.Children, g.Related} {
		for i := range list {
			all[string(list[i].Object.GetUID())] = &list[i]
		}
	}
	return all
}

// wants is what an answer would write, which is not written; "" is nothing.
func (d *Driver) wants(ctx context.Context, g *gathered, out *abi.ReconcileResult, statusFollows bool) string {
	p := &plan{d: d, gathered: g, tx: d.Writer.Begin(), empty: true}
	defer p.tx.Rollback()
	err := p.add(ctx, out)
	if err != nil || p.refused != "" || p.empty || statusFollows && !p.objects {
		return ""
	}
	var texts []string
	effects, _ := d.effects(g, out) // they are those of a plan that could be made
	for _, e := range effects {
		if !statusFollows || !strings.HasPrefix(e.Text, givesStatus) {
			texts = append(texts, e.Text)
		}
	}
	return fmt.Sprintf("%.500s", strings.Join(texts, ", "))
}
