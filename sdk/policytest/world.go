package policytest

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
)

// World is a small cluster in which one controller works over many rounds: a
// test creates objects and lets time pass, the controller is asked whenever
// something changes that it reads, and its answers are stored. Pods start, fail,
// end and vanish as the test says. Time is the world's own: an hour takes none.
//
// Objects are JSON, as they are written: a world sets no defaults and validates
// nothing. Names are of the namespace default, or NAMESPACE/NAME.
//
// It is large because its methods are the words of a test: one for each thing
// that can happen in a cluster or be looked at.
type World struct {
	T *testing.T

	policy  *abi.Policy
	in      *guest.Instance
	tape    *tape
	now     time.Time
	objects []*object // in the order in which they were made
	made    int       // how many there ever were
	writes  int       // how often something was stored
	// objectWrites is what writes was when the last answer had written all but the status.
	objectWrites int
	asked        map[string]*question
	start        func(pod string) PodStatus
	refused      map[string]string // what creations of a kind are refused with
	events       []string
	steps        []step // what the world itself does later
	inputs       [][]byte
}

// PodStatus is how a pod is.
type PodStatus struct {
	// Phase is Pending, Running, Succeeded or Failed.
	Phase    string
	Ready    bool
	Restarts int
}

// question is what a parent was asked about last.
type question struct {
	input   string
	refused string
	memory  json.RawMessage
	why     []string
	again   time.Time // when to ask again, if ever
	made    result
	seed    uint64
}

// result is what an answer made of the world.
type result struct {
	at     time.Time
	writes int // when it was stored
	answer []byte
	// rests: it asks for nothing of its result. objects: it wrote more than the
	// parent's status.
	rests, objects bool
}

// step is something that happens at a time.
type step struct {
	at time.Time
	do func()
}

// Beginning is the time at which each world begins.
var Beginning = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

// settled is how often a parent may be asked at one instant: what does not come
// to rest before answers itself.
const settled = 100

// Play opens a controller with its settings, which are JSON or empty, and has it
// work in a world. The policy may be empty if the module has one only.
func Play(t *testing.T, policy, config string, test func(w *World)) {
	t.Helper()
	w := &World{T: t, tape: newTape(t), now: Beginning, asked: map[string]*question{}, refused: map[string]string{}}
	w.start = func(string) PodStatus { return PodStatus{Phase: "Running", Ready: true} }
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	if w.policy = m.Find(policy); policy == "" && len(m.Policies) == 1 {
		w.policy = &m.Policies[0]
	}
	if w.policy == nil || w.policy.Kind != abi.KindController {
		t.Fatalf("no controller %q is registered", policy)
	}
	if err := w.playable(); err != nil {
		t.Fatal(err)
	}
	open := openConfig(policy, config)
	if w.in, err = guest.Open(open); err != nil {
		t.Fatal(err)
	}
	w.tape.status(abi.FuncOpen, open)
	test(w)
	w.settle()
	if err := w.tape.write(); err != nil {
		t.Fatal(err)
	}
	all := func() (*Asked, error) {
		return &Asked{Policy: policy, Open: open, Export: abi.FuncReconcile, Inputs: w.inputs, Each: 1}, nil
	}
	if err := w.tape.keepAsked(all); err != nil {
		t.Fatal(err)
	}
}

// Now is the world's time.
func (w *World) Now() time.Time { return w.now }

// Wait lets time pass: what is due by then happens, each at its time.
func (w *World) Wait(d time.Duration) {
	w.T.Helper()
	until := w.now.Add(d)
	for w.settle(); ; w.settle() {
		at, do := w.next()
		if do == nil || at.After(until) {
			break
		}
		w.now = at
		do()
	}
	w.now = until
}

// next is what happens next, and when: the world's own steps, in the order in
// which they were planned, and questions that are due.
func (w *World) next() (at time.Time, do func()) {
	for i, s := range w.steps {
		if do == nil || s.at.Before(at) {
			at, do = s.at, func() {
				w.steps = slices.Delete(w.steps, i, i+1)
				s.do()
			}
		}
	}
	for _, q := range w.asked {
		if !q.again.IsZero() && (do == nil || q.again.Before(at)) {
			at, do = q.again, func() {} // settle asks
		}
	}
	return at, do
}

func (w *World) after(d time.Duration, do func()) {
	w.steps = append(w.steps, step{w.now.Add(d), do})
}

// Create stores an object as a user would.
func (w *World) Create(object string) {
	w.T.Helper()
	body, err := readBody(object)
	if err == nil {
		_, err = w.add(body)
	}
	if err != nil {
		w.T.Fatalf("create %s: %v", object, err)
	}
}

// Change applies a JSON merge patch as a user would.
func (w *World) Change(kind, name, patch string) {
	w.T.Helper()
	if err := w.merge(w.must(kind, name), json.RawMessage(patch)); err != nil {
		w.T.Fatalf("change %s %s by %s: %v", kind, name, patch, err)
	}
}

// Delete deletes an object as a user would: what it controls goes after it.
func (w *World) Delete(kind, name string) {
	w.T.Helper()
	w.remove(w.must(kind, name), "")
}

// Vanish takes an object away at once, as when somebody else forces it.
func (w *World) Vanish(kind, name string) {
	w.T.Helper()
	w.drop(w.must(kind, name))
}

// Start says how pods are a second after they are made; they are Running and
// ready by themselves.
func (w *World) Start(how func(pod string) PodStatus) { w.start = how }

// SetPod changes how a pod is.
func (w *World) SetPod(name string, how PodStatus) {
	w.T.Helper()
	w.become(w.must("Pod", name), how)
}

// Refuse has creations of a kind refused with a message, as a quota does; an
// empty one ends that.
func (w *World) Refuse(kind, message string) {
	if w.refused[kind] = message; message == "" {
		delete(w.refused, kind)
	}
}

// Names are the objects of a kind, sorted; those of other namespaces than
// default are NAMESPACE/NAME.
func (w *World) Names(kind string) []string {
	w.T.Helper()
	w.settle()
	names := []string{}
	for _, o := range w.objects {
		if o.kind == kind {
			names = append(names, o.title())
		}
	}
	slices.Sort(names)
	return names
}

// Field is a field of an object as JSON, such as "spec.replicas"; empty if there
// is none, or no such object.
func (w *World) Field(kind, name, path string) string {
	w.T.Helper()
	w.settle()
	if o := w.find(kind, name); o != nil {
		return string(o.field(path))
	}
	return ""
}

// Why is what a parent waits for, as the controller said last.
func (w *World) Why(name string) string {
	w.T.Helper()
	w.settle()
	if q := w.asked[w.must(w.policy.Parent.Kind, name).uid]; q != nil {
		return strings.Join(q.why, "; ")
	}
	return ""
}

// Events are those that were written since the last call, as "KIND/NAME TYPE
// REASON: MESSAGE".
func (w *World) Events() []string {
	w.T.Helper()
	w.settle()
	events := w.events
	w.events = nil
	return events
}

// Want checks which objects of a kind there are, in any order.
func (w *World) Want(kind string, names ...string) {
	w.T.Helper()
	slices.Sort(names)
	if got := w.Names(kind); !slices.Equal(got, names) {
		w.T.Errorf("after %s: %s are %q, want %q", w.now.Sub(Beginning), kind, got, names)
	}
}

// WantField checks a field of an object against JSON; an empty text wants none.
func (w *World) WantField(kind, name, path, want string) {
	w.T.Helper()
	if got := w.Field(kind, name, path); got != want && !sameJSON(json.RawMessage(got), want) {
		w.T.Errorf("after %s: %s of %s %s is %s, want %s", w.now.Sub(Beginning), path, kind, name, cmp.Or(got, "not there"), cmp.Or(want, "none"))
	}
}

// must finds an object that has to be there.
func (w *World) must(kind, name string) *object {
	w.T.Helper()
	w.settle()
	o := w.find(kind, name)
	if o == nil {
		w.T.Fatalf("after %s: there is no %s %s", w.now.Sub(Beginning), kind, name)
	}
	return o
}

func (w *World) event(about *object, kind, reason, message string) {
	w.events = append(w.events, fmt.Sprintf("%s/%s %s %s: %s", about.kind, about.title(), kind, reason, message))
}

// playable refuses what only a host can work out.
func (w *World) playable() error {
	kinds := slices.Concat([]abi.ObjectKind{*w.policy.Parent}, w.policy.Children, w.policy.Related)
	for i := range kinds {
		for _, fact := range kinds[i].Facts {
			if fact != abi.FactPod && fact != abi.FactMemory {
				return fmt.Errorf("the fact %s of a %s is worked out by the host, and a world has none: ask about it with RunController", fact, kinds[i].Kind)
			}
		}
		switch kinds[i].By {
		case abi.ByOrdinal, abi.ByTarget, abi.ByReference, abi.ByClaim:
			return fmt.Errorf("which %s are given by %q a world does not know: ask about them with RunController", kinds[i].Kind, kinds[i].By)
		}
	}
	return nil
}
