package policytest

import (
	"bytes"
	"slices"
	"strconv"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// gathered is what the controller is told of a parent.
type gathered struct {
	parent            *object
	as                *abi.ObjectKind
	children, related []member
	q                 *question
}

// member is an object with the kind of the manifest that it is given for.
type member struct {
	*object
	as    *abi.ObjectKind
	child bool
}

// settle asks about each parent of which something changed, or whose time has
// come, until nothing is left to ask.
func (w *World) settle() {
	w.T.Helper()
	times := map[string]int{}
	for again := true; again; {
		again = false
		for _, o := range slices.Clone(w.objects) {
			if !w.has(o) || !is(o, w.policy.Parent) || !w.asks(o) {
				continue
			}
			again = true
			if times[o.uid]++; times[o.uid] > settled {
				w.T.Fatalf("after %s: %s %s does not come to rest: each answer asks for more; the last events are %q",
					w.now.Sub(Beginning), o.kind, o.title(), w.events[max(0, len(w.events)-3):])
			}
			if w.has(o) {
				w.asks(o) // if only its own answer has changed anything, it is at rest now
			}
		}
	}
}

func is(o *object, k *abi.ObjectKind) bool { return o.apiVersion == k.APIVersion && o.kind == k.Kind }

// asks asks about a parent if there is a reason to.
func (w *World) asks(o *object) bool {
	w.T.Helper()
	q := w.asked[o.uid]
	if q == nil {
		q = &question{}
	}
	g := w.gather(o, q)
	input := string(g.encode(time.Time{}, false))
	due := !q.again.IsZero() && !q.again.After(w.now)
	if input == q.input && !due {
		return false
	}
	q.input, q.again = input, time.Time{}
	w.asked[o.uid] = q
	w.ask(g)
	return true
}

// ask has the controller answer, twice: it keeps nothing between questions.
func (w *World) ask(g *gathered) {
	w.T.Helper()
	if w.policy.Seed {
		if w.now.After(g.q.made.at) { // what is asked at once has the same
			g.q.seed = uint64(len(w.inputs)+1) * 0x9e3779b97f4a7c15
		}
	}
	o, input := g.parent, g.encode(w.now, true)
	w.inputs = append(w.inputs, input)
	w.tape.asks(o.kind + " " + o.title() + " after " + w.now.Sub(Beginning).String())
	out, err := w.in.Reconcile(input)
	if err == nil {
		err = w.in.Unchanged(input)
	}
	if err != nil {
		w.T.Fatalf("reconcile of %s %s: %v", o.kind, o.title(), err)
	}
	out = bytes.Clone(out)
	w.tape.bytes(abi.FuncReconcile, input, out)
	if twice, err := w.in.Reconcile(input); err != nil || !bytes.Equal(out, twice) {
		w.T.Fatalf("reconcile of %s %s answers the same question with %s and then with %s (%v): a controller keeps nothing between questions",
			o.kind, o.title(), out, twice, err)
	}
	answer, err := abi.ReadReconcileResult(out)
	before := w.writes
	if err == nil {
		err = w.store(g, answer)
	}
	if err != nil {
		w.T.Fatalf("reconcile of %s %s answers %s: %v", o.kind, o.title(), out, err)
	}
	w.rests(g, before, out)
	g.q.made = result{at: w.now, writes: w.writes, answer: out, rests: w.writes > before && !answer.Step && g.q.refused == "", objects: w.objectWrites > before}
}

// rests tells of an answer that wants more of the very state that the one before
// made, as a host does.
func (w *World) rests(g *gathered, before int, out []byte) {
	w.T.Helper()
	was, o := g.q.made, g.parent
	if !was.rests || was.writes != before || !was.at.Equal(w.now) || w.writes == before {
		return // it was no such state, or wants nothing
	}
	if was.objects && w.objectWrites <= before {
		return // a status that follows what was made
	}
	w.T.Errorf("after %s: %s %s answers %s, and of nothing but the result of that wants more: %s; a controller that goes by steps says so by Step",
		w.now.Sub(Beginning), o.kind, o.title(), was.answer, out)
}

// gather finds a parent's children and what is related to it, as a host does.
func (w *World) gather(parent *object, q *question) *gathered {
	g := &gathered{parent: parent, as: w.policy.Parent, q: q}
	for i := range w.policy.Children {
		k := &w.policy.Children[i]
		for _, o := range w.objects {
			if is(o, k) && w.isChild(parent, o, k) {
				g.children = append(g.children, member{o, k, true})
			}
		}
	}
	for i := range w.policy.Related {
		k := &w.policy.Related[i]
		for _, o := range w.objects {
			if is(o, k) && g.relates(o, k) {
				g.related = append(g.related, member{o, k, false})
			}
		}
	}
	return g
}

func (w *World) isChild(parent, o *object, k *abi.ObjectKind) bool {
	if k.By == abi.ByName {
		return named(parent, o, k)
	}
	if o.controller() != "" {
		return o.controller() == parent.uid
	}
	return o.namespace == parent.namespace && o.deleted.IsZero() && parent.deleted.IsZero() && selects(parent.at(selectorPath(k)), o.labels(), false)
}

func (g *gathered) relates(o *object, k *abi.ObjectKind) bool {
	switch k.By {
	case abi.ByCluster:
		return true
	case abi.ByNamespace:
		return o.namespace == g.parent.namespace
	case abi.ByName:
		return named(g.parent, o, k)
	case abi.ByChildren:
		return slices.ContainsFunc(g.children, func(c member) bool { return c.uid == o.controller() })
	}
	return o.namespace == g.parent.namespace && selects(g.parent.at(selectorPath(k)), o.labels(), true)
}

func selectorPath(k *abi.ObjectKind) string {
	if k.Path != "" {
		return k.Path
	}
	return "spec.selector"
}

// named tells whether the parent means the object by name: its own, or the one
// at the kind's path, which is a text or a reference.
func named(parent, o *object, k *abi.ObjectKind) bool {
	name, namespace := parent.name, parent.namespace
	if k.Path != "" {
		name, _ = parent.at(k.Path).(string)
		if ref, ok := parent.at(k.Path).(body); ok {
			name, _ = ref["name"].(string)
			namespace, _ = ref["namespace"].(string)
		}
	}
	return o.name == name && (o.namespace == namespace || o.namespace == "")
}

// encode is the question as a host would send it. What it compares to see whether anything
// has changed has no time, no versions, and not what it refused itself.
func (g *gathered) encode(now time.Time, versions bool) []byte {
	c := &ControllerCase{Parent: g.object(member{g.parent, g.as, false}, versions)}
	if versions {
		c.Now, c.Refused, c.Seed = now.UnixNano(), g.q.refused, g.q.seed
	}
	for _, o := range g.children {
		c.Children = append(c.Children, g.object(o, versions))
	}
	for _, o := range g.related {
		c.Related = append(c.Related, g.object(o, versions))
	}
	return encodeReconcile(c)
}

// object is an object with what its kind in the manifest asks for.
func (g *gathered) object(o member, versions bool) Object {
	out := Object{
		APIVersion: o.apiVersion, Kind: o.kind, Namespace: o.namespace, Name: o.name, UID: o.uid,
		Generation: o.generation, Created: nanos(o.created), Deleted: nanos(o.deleted),
		Labels: o.labels(), Annotations: texts(o.at("metadata.annotations")), Owner: o.controller(), Finalizers: o.finalizers(),
		Fields: map[string]string{},
	}
	if versions {
		out.ResourceVersion = strconv.Itoa(o.version)
	}
	for _, path := range o.as.Fields {
		if value := o.field(path); value != nil {
			out.Fields[path] = string(value)
		}
	}
	if slices.Contains(o.as.Facts, abi.FactMemory) && len(g.q.memory) > 0 && o.object == g.parent {
		out.Fields[abi.FactMemory] = string(g.q.memory)
	}
	if slices.Contains(o.as.Facts, abi.FactPod) {
		out.Pod = &reconcile.PodFacts{
			Phase: o.phase(), Ready: o.ready(), ReadySince: nanos(o.readySince), NodeName: o.text("spec.nodeName"),
			Restarts: o.restarts(), Hostname: o.text("spec.hostname"), Subdomain: o.text("spec.subdomain"),
		}
		if ip := o.text("status.podIP"); ip != "" {
			out.Pod.IPs = []string{ip}
		}
	}
	return out
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}
