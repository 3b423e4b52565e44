package wire_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	flatbuffers "github.com/google/flatbuffers/go"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// cluster makes up parents with children, which change between two questions.
type cluster struct {
	*rand.Rand
	revision, names int
	of              map[string][]*v1.Pod
}

func (c *cluster) touch(p *v1.Pod) {
	c.revision++
	p.ResourceVersion = strconv.Itoa(c.revision)
	p.Labels = map[string]string{"app": "web", "n": strconv.Itoa(c.IntN(3))}
	p.Finalizers = []string{"a", "b"}[:c.IntN(3)]
	p.Status.Phase = []v1.PodPhase{v1.PodPending, v1.PodRunning, v1.PodFailed}[c.IntN(3)]
	p.Status.PodIPs = []v1.PodIP{{IP: "10.0.0.1"}, {IP: "fd00::1"}}[:c.IntN(3)]
	if c.IntN(4) == 0 {
		p.OwnerReferences = nil
	}
}

func (c *cluster) create(parent string) {
	c.names++
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{
		Name: fmt.Sprint("web-", c.IntN(1000)), Namespace: "default", UID: types.UID(fmt.Sprint("uid-", c.names)),
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: parent, UID: types.UID(parent), Controller: new(true)}},
	}}
	c.touch(p)
	c.of[parent] = slices.Insert(c.of[parent], c.IntN(len(c.of[parent])+1), p)
}

// change makes one change to the children of a parent.
func (c *cluster) change(parent string) {
	list := c.of[parent]
	switch k := c.IntN(8); {
	case k < 2 || len(list) == 0:
		c.create(parent)
	case k == 2:
		i := c.IntN(len(list))
		c.of[parent] = slices.Delete(list, i, i+1)
	case k == 3:
		c.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	case k == 4: // it is deleted and made anew by the same name
		i := c.IntN(len(list))
		list[i] = list[i].DeepCopy()
		c.names++
		list[i].UID = types.UID(fmt.Sprint("uid-", c.names))
		c.touch(list[i])
	default:
		i := c.IntN(len(list))
		list[i] = list[i].DeepCopy()
		c.touch(list[i])
	}
}

// question is about a parent, whose children are told of as one kind or another, or
// as both.
func (c *cluster) question(parent string) *wire.ReconcileInput {
	counted := abi.ObjectKind{APIVersion: "v1", Kind: "Pod", Facts: []string{abi.FactPod}}
	read := abi.ObjectKind{APIVersion: "v1", Kind: "Pod", Fields: []string{"spec.a", "spec.b"}}
	set := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: parent, UID: types.UID(parent), ResourceVersion: "1"}}
	in := &wire.ReconcileInput{Parent: wire.ControlObject{Kind: abi.ObjectKind{APIVersion: "apps/v1", Kind: "ReplicaSet"}, Object: set}}
	as := c.IntN(4)
	for _, p := range c.of[parent] {
		pod := &wire.PodFacts{Phase: string(p.Status.Phase), NodeName: "n", Hostname: p.Name}
		for _, ip := range p.Status.PodIPs {
			pod.IPs = append(pod.IPs, ip.IP)
		}
		if as != 0 {
			in.Children = append(in.Children, wire.ControlObject{Kind: counted, Object: p, Pod: pod, Fields: []json.RawMessage{nil}})
		}
		if as < 2 { // what another object is the reason for changes without the pod
			one := wire.ControlObject{Kind: read, Object: p, Fields: []json.RawMessage{nil, json.RawMessage(strconv.Itoa(c.IntN(3)))}}
			if c.IntN(2) == 0 {
				one.Fields[0] = json.RawMessage(`"a"`)
			}
			in.Children = append(in.Children, one)
			in.Related = append(in.Related, one)
		}
	}
	return in
}

// told is all that a controller sees of objects.
func told(r *reconcile.Request, syms *facts.Symbols) string {
	var b strings.Builder
	for _, o := range append(append([]*reconcile.Object{&r.Parent}, r.Children...), r.Related...) {
		fmt.Fprintln(&b, o.APIVersion, o.Kind, o.Namespace, o.Name, o.UID, o.Generation, o.Created, o.Deleted, o.Finalizers, o.ResourceVersion, o.Controller(), o.JSON("spec.a"), o.JSON("spec.b"))
		for _, l := range []facts.Labels{o.Labels, o.Annotations} {
			for i := range l.Len() {
				key, value := l.At(i)
				fmt.Fprintln(&b, " ", key, value)
			}
		}
		for _, w := range o.Owners {
			fmt.Fprintln(&b, "  of", syms.String(w.Kind), syms.String(w.Name), syms.String(w.UID), w.Controller)
		}
		if o.HasPod {
			fmt.Fprintln(&b, "  pod", o.Pod)
		}
	}
	return b.String()
}

// What a reader knows from the questions before, it reads as one does that knows
// nothing: whatever came, went, changed or moved meanwhile.
func TestWhatIsKnownIsReadAsIfItWereNew(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		c := &cluster{Rand: rand.New(rand.NewPCG(seed, 1)), of: map[string][]*v1.Pod{}}
		var kept reconcile.Reader
		keptSyms, enc := facts.NewSymbols(), wire.NewEncoder()
		for ask := range 30 {
			parent := []string{"a", "a", "a", "b"}[c.IntN(4)]
			for range c.IntN(12) {
				c.change(parent)
			}
			data := enc.Reconcile(c.question(parent))
			read := func(r *reconcile.Reader, syms *facts.Symbols) string {
				var in fb.ReconcileInput
				in.Init(data, flatbuffers.GetUOffsetT(data))
				got, ok := r.Read(&in, facts.NewDecoder(syms), syms)
				if !ok {
					t.Fatal("there is no parent")
				}
				text := told(got, syms)
				slices.Reverse(got.Children) // as a controller may
				return text
			}
			if got, want := read(&kept, keptSyms), read(new(reconcile.Reader), facts.NewSymbols()); got != want {
				t.Fatalf("seed %d, question %d is read as\n%s, want\n%s", seed, ask, got, want)
			}
		}
	}
}
