package policytest

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-dev/berth/abi"
)

// refusalPause is how long a parent waits whose creations were refused.
const refusalPause = 10 * time.Second

// store does what an answer wants, in the host's order, and refuses what a host
// refuses: kinds and verbs that the manifest does not declare, and objects that
// the controller was not given.
func (w *World) store(g *gathered, a *abi.ReconcileResult) error {
	if err := w.storeNamed(g, a); err != nil {
		return err
	}
	if err := w.createAll(g, a.Create); err != nil {
		return err
	}
	w.objectWrites = w.writes
	if len(a.Status) > 0 && w.has(g.parent) {
		if err := w.status(g.parent, a.Status); err != nil {
			return err
		}
	}
	for _, e := range a.Events {
		about := g.parent
		if one, err := g.find(e.About); err == nil {
			about = one.object
		}
		w.event(about, e.Type, e.Reason, e.Message)
	}
	g.q.keep(w.now, a)
	return nil
}

// storeNamed does what is about objects that are there.
func (w *World) storeNamed(g *gathered, a *abi.ReconcileResult) error {
	for _, uid := range a.Adopt {
		if err := w.own(g, uid, true); err != nil {
			return err
		}
	}
	for _, uid := range a.Release {
		if err := w.own(g, uid, false); err != nil {
			return err
		}
	}
	for i := range a.Patch {
		if err := w.patch(g, &a.Patch[i]); err != nil {
			return err
		}
	}
	for i := range a.Delete {
		if err := w.delete(g, &a.Delete[i]); err != nil {
			return err
		}
	}
	return nil
}

// keep remembers what the next question is told, and when it is asked.
func (q *question) keep(now time.Time, a *abi.ReconcileResult) {
	q.why = a.Why
	if len(a.Memory) > 0 {
		q.memory = a.Memory
	}
	if a.RequeueAfterNanos > 0 {
		q.again = now.Add(time.Duration(a.RequeueAfterNanos))
	}
	if again := now.Add(refusalPause); q.refused != "" && (q.again.IsZero() || again.Before(q.again)) {
		q.again = again
	}
}

// find is an object that the controller was given.
func (g *gathered) find(uid string) (member, error) {
	if uid == g.parent.uid {
		return member{g.parent, g.as, false}, nil
	}
	for _, list := range [][]member{g.children, g.related} {
		for _, o := range list {
			if o.uid == uid {
				return o, nil
			}
		}
	}
	return member{}, fmt.Errorf("it names %.64q, which it was not given", uid)
}

func (w *World) own(g *gathered, uid string, adopt bool) error {
	o, err := g.find(uid)
	switch {
	case err != nil:
		return err
	case !o.child:
		return fmt.Errorf("it wants to own %s %s, which is no child", o.kind, o.title())
	case !adopt:
		w.disown(o.object, g.parent)
	case o.controller() == "":
		next := copyOf(o.body)
		setOwners(next, append(o.owners(), reference(g.parent)))
		w.replace(o.object, next)
	}
	return nil
}

func reference(parent *object) body {
	return body{"apiVersion": parent.apiVersion, "kind": parent.kind, "name": parent.name, "uid": parent.uid, "controller": true, "blockOwnerDeletion": true}
}

func (w *World) patch(g *gathered, want *abi.Patch) error {
	o, err := g.find(want.UID)
	if err != nil {
		return err
	}
	if !o.as.May("patch") {
		return undeclared("patch", o.kind)
	}
	return w.merge(o.object, want.Patch)
}

func (w *World) delete(g *gathered, want *abi.Deletion) error {
	o, err := g.find(want.UID)
	if err != nil {
		return err
	}
	if !o.as.May("delete") {
		return undeclared("delete", o.kind)
	}
	if o.child && o.as.By != abi.ByName && o.controller() != g.parent.uid {
		return fmt.Errorf("it wants %s %s deleted, which its parent does not own", o.kind, o.title())
	}
	if !o.deleted.IsZero() {
		return nil
	}
	w.remove(o.object, want.PropagationPolicy)
	if !want.Quiet {
		w.event(g.parent, "Normal", "SuccessfulDelete", said(want.Success, "Deleted "+singular(o.kind)+": "+o.name))
	}
	return nil
}

func undeclared(verb, kind string) error {
	return fmt.Errorf("it wants to %s a %s, which its manifest does not say: Writes needs %q", verb, kind, verb)
}

func said(own, otherwise string) string {
	if own != "" {
		return own
	}
	return otherwise
}

// singular names a kind in an event as Kubernetes does: pod, not Pod.
func singular(kind string) string { return string(kind[0]|0x20) + kind[1:] }

func (w *World) createAll(g *gathered, wanted []abi.Creation) error {
	g.q.refused = ""
	if !g.parent.deleted.IsZero() {
		return nil
	}
	for i := range wanted {
		c := &wanted[i]
		for k := range c.Count {
			b, err := w.stamp(g, c, int(k))
			if err != nil {
				return err
			}
			if err := w.createOne(g, b, c); err != nil {
				return nil // it is told, and what follows may need it
			}
		}
	}
	return nil
}

// createOne stores one new object; the error is what was refused.
func (w *World) createOne(g *gathered, b body, c *abi.Creation) error {
	kind, _ := b["kind"].(string)
	meta := b["metadata"].(body)
	generated := meta["name"] == nil
	if name, _ := meta["name"].(string); !generated {
		if have := w.find(kind, (&object{namespace: g.parent.namespace, name: name}).title()); have != nil && (c.Unowned || have.controller() == g.parent.uid) {
			return nil
		}
	}
	o, err := (*object)(nil), error(nil)
	if message, ok := w.refused[kind]; ok {
		err = errors.New(message)
	} else {
		o, err = w.add(b)
	}
	if err != nil {
		g.q.refused = "Error creating: " + err.Error()
		w.event(g.parent, "Warning", "FailedCreate", said(c.Failure, "Error creating: ")+err.Error())
		return err
	}
	if c.Success != "" || generated && !c.Quiet {
		w.event(g.parent, "Normal", "SuccessfulCreate", said(c.Success, "Created "+singular(kind)+": "+o.name))
	}
	return nil
}

// stamp makes the object of a creation.
func (w *World) stamp(g *gathered, c *abi.Creation, number int) (body, error) {
	patch, err := readBody(string(c.Object))
	if err != nil {
		return nil, fmt.Errorf("it wants an object that is none: %w", err)
	}
	b := body{}
	if c.From != "" {
		template, ok := g.parent.at(c.From).(body)
		if !ok {
			return nil, fmt.Errorf("the parent has no template at %q", c.From)
		}
		merged(b, copyOf(template))
	}
	merged(b, patch)
	if number < len(c.Each) {
		each, err := readBody(string(c.Each[number]))
		if err != nil {
			return nil, fmt.Errorf("it wants an object that is none: %w", err)
		}
		merged(b, each)
	}
	meta, ok := b["metadata"].(body)
	if !ok {
		meta = body{}
		b["metadata"] = meta
	}
	kind, _ := b["kind"].(string)
	if err := w.creatable(b); err != nil {
		return nil, err
	}
	if slices.Contains(clustered, kind) {
		if !c.Unowned && g.parent.namespace != "" {
			return nil, fmt.Errorf("it wants a %s that its parent owns: nothing in a namespace can own what is in none", kind)
		}
	} else {
		meta["namespace"] = g.parent.namespace
	}
	if meta["name"] == nil && meta["generateName"] == nil {
		meta["generateName"] = g.parent.name + "-"
	}
	if !c.Unowned {
		setOwners(b, []body{reference(g.parent)})
	}
	return b, nil
}

func (w *World) creatable(b body) error {
	kind, _ := b["kind"].(string)
	for _, list := range [][]abi.ObjectKind{w.policy.Children, w.policy.Related} {
		for i := range list {
			if k := &list[i]; k.Kind == kind && k.APIVersion == b["apiVersion"] {
				if !k.May("create") {
					return undeclared("create", kind)
				}
				return nil
			}
		}
	}
	return fmt.Errorf("it wants a %v %s, which its manifest does not declare", b["apiVersion"], kind)
}

// status replaces the parent's.
func (w *World) status(parent *object, data json.RawMessage) error {
	status, err := readBody(string(data))
	if err != nil {
		return fmt.Errorf("its status is no JSON object: %w", err)
	}
	next := copyOf(parent.body)
	next["status"] = status
	w.replace(parent, next)
	return nil
}
