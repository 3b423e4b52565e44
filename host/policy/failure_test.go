package policy_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/policy/wire"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// troubled is testdata/troubled, built once by what a user would have it built.
var troubled = sync.OnceValues(func() ([]byte, error) {
	tool, err := build.Find()
	if err != nil {
		return nil, err
	}
	built, err := tool.Build(context.Background(), "testdata/troubled", true)
	return built.Wasm, err
})

// withTroubled puts an entry of the troubled module into the live set.
func withTroubled(t testing.TB, entry, config string) *rig {
	t.Helper()
	return withTroubledLogging(t, entry, config, slog.New(slog.DiscardHandler))
}

func withTroubledLogging(t testing.TB, entry, config string, log *slog.Logger) *rig {
	t.Helper()
	wasm, err := troubled()
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	r.Log = log
	name := r.upload(t, wasm)
	p := r.put(t, "troubled", func(s *v1alpha1.PolicySpec) {
		s.Module, s.Entry = name, entry
		if config != "" {
			withConfig(name, config)(s)
		}
	})
	if p.Status.Phase != v1alpha1.PhaseLive {
		t.Fatalf("%s is %s: %s", entry, p.Status.Phase, p.Status.Message)
	}
	switch p.Status.Kind {
	case "predicate", "priority":
		r.join(t, "troubled", p.Status.Kind)
	}
	return r
}

// withTrap makes nodes of which one has the label trap.
func (r *rig) withTrap(nodes int, how string) {
	for i := range nodes {
		r.cluster.UpsertNode(clustertest.Node("n"+strings.Repeat("i", i), "64", "256Gi", 1000, func(n *v1.Node) {
			if i == nodes/2 {
				n.Name, n.Labels = "the-bad-one", map[string]string{"trap": how}
			}
		}))
	}
}

// figures are those of the troubled policy.
func (r *rig) figures(t testing.TB, name string) sandbox.Figures {
	t.Helper()
	for _, f := range r.Figures() {
		if f.Name == name {
			return f
		}
	}
	t.Fatalf("no figures of %s", name)
	return sandbox.Figures{}
}

func TestATrapNamesPodAndNode(t *testing.T) {
	t.Parallel()
	const both = "pod default/unlucky, node the-bad-one: guest "
	for _, tt := range []struct {
		name, entry, how, want string
	}{
		{"a predicate that panics", "Trips", "panic", both},
		{"one that spins", "Trips", "spin", both},
		{"one that recurses", "Trips", "deep", both},
		{"one of scope set", "TripsSet", "panic", both},
		{"a priority", "TripsScoring", "panic", both},
		{"one that does not say what it is at", "TripsBatch", "panic", both},
		{"one that spins and does not say", "TripsBatch", "spin", both},
		{"while it is told of a node", "TripsTold", "panic", "pod default/unlucky, node n: guest "},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			r := withTroubled(t, tt.entry, "")
			r.withTrap(9, tt.how)
			r.decide(t, clustertest.Pod("unlucky", "10m", "1Mi", func(p *v1.Pod) { p.Namespace = "default" }))
			f := r.figures(t, "troubled")
			if f.Failures == 0 || f.Traps == 0 || !strings.HasPrefix(f.LastFailure, tt.want) {
				t.Errorf("%d failures, the last: %s\nwant %s…", f.Failures, f.LastFailure, tt.want)
			}
			if tt.how == "panic" && !strings.Contains(f.LastFailure, "panic: runtime error: index out of range in ") {
				t.Errorf("it does not say what panicked: %s", f.LastFailure)
			}
			// The compiler makes one of like panics in what it inlined into one
			// function: then only that is known.
			if tt.how == "panic" && tt.entry != "TripsTold" && !strings.Contains(f.LastFailure, "troubled/main.go") && !strings.Contains(f.LastFailure, "FilterRows") {
				t.Errorf("it shows nothing of the author's: %s", f.LastFailure)
			}
			lines, _ := r.GuestLog("troubled")
			if len(lines) == 0 || !strings.Contains(lines[len(lines)-1].Message, tt.want) {
				t.Errorf("its log does not tell: %+v", lines)
			}
		})
	}
}

// An author looks for the line that is wrong, not for the loop around it.
func TestATrapNamesTheAuthorsLine(t *testing.T) {
	t.Parallel()
	tool, err := build.Find()
	if err != nil {
		t.Fatal(err)
	}
	built, err := tool.Build(t.Context(), "testdata/lone", true)
	if err != nil {
		t.Fatal(err)
	}
	r := newRig(t)
	name := r.upload(t, built.Wasm)
	r.put(t, "lone", func(s *v1alpha1.PolicySpec) { s.Module, s.Entry = name, "Lone" })
	r.join(t, "lone", "priority")
	r.cluster.UpsertNode(clustertest.Node("n", "64", "256Gi", 1000, func(n *v1.Node) { n.Annotations = map[string]string{"class": "7"} }))
	r.cluster.UpsertNode(clustertest.Node("o", "64", "256Gi", 1000, nil))
	r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
	const want = "index out of range in (main.lone).Score (lone/main.go:20)"
	if f := r.figures(t, "lone"); !strings.Contains(f.LastFailure, want) {
		t.Errorf("it says %s\nwant …%s", f.LastFailure, want)
	}
}

// What was quarantined says in its status on which node.
func TestAQuarantineNamesPodAndNode(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "Trips", "")
	r.withTrap(3, "panic")
	for range 5 {
		r.decide(t, clustertest.Pod("unlucky", "10m", "1Mi", nil))
	}
	r.Load(t.Context())
	if p := r.policy(t, "troubled"); p.Status.Phase != v1alpha1.PhaseQuarantined || !strings.Contains(p.Status.Message, "unlucky, node the-bad-one: ") {
		t.Errorf("it is %s: %s", p.Status.Phase, p.Status.Message)
	}
}

func TestATrapOfAGateNamesThePod(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "TripsGate", "")
	pods := make([]wire.GatePod, 5)
	for i := range pods {
		labels := map[string]string{}
		if i == 3 {
			labels["trap"] = "panic"
		}
		pods[i] = wire.GatePod{Condition: "troubled", Pod: &v1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "till-" + string(rune('a'+i)), Labels: labels,
		}}}
	}
	gate := r.Current().Gates()["troubled"]
	got, err := gate.Judge(t.Context(), 1, pods)
	if err != nil || len(got) != len(pods) {
		t.Fatalf("Judge = %+v, %v", got, err)
	}
	for i, r := range got {
		switch {
		case i != 3 && r.Status != "True":
			t.Errorf("pod %d, beside the one that the gate fails at, is %+v", i, r)
		case i == 3 && (r.Status != "Unknown" || r.Reason != "CheckerFailed" || !strings.HasPrefix(r.Message, "policy troubled: pod shop/till-d: guest ")):
			t.Errorf("the pod that the gate fails at is %+v", r)
		}
	}
	if _, err := gate.Judge(t.Context(), 1, pods[3:4]); err == nil {
		t.Error("a gate that fails at its only pod is said to have judged it")
	}
}

func TestATrapOfAControllerNamesTheObject(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "TripsReconciling", "")
	c := r.Current().Controllers()[0]
	for _, one := range r.Current().Controllers() {
		if one.Name() == "troubled" {
			c = one
		}
	}
	parent := wire.ControlObject{Kind: c.Parent(), Object: &metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Fields: []json.RawMessage{json.RawMessage(`"panic"`)}}
	_, err := c.Reconcile(t.Context(), &wire.ReconcileInput{Now: 1, Parent: parent})
	if err == nil || !strings.HasPrefix(err.Error(), "policy troubled: ReplicaSet shop/web: guest ") {
		t.Errorf("Reconcile = %v", err)
	}
}

// A guest that is asked again about a parent of thousands of children reads what has
// changed of them, and is not opened anew for it. About another parent it is.
func TestALargeParentIsNotReadAnewWithEachQuestion(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	i := slices.IndexFunc(r.Current().Controllers(), func(c *sandbox.Controller) bool { return c.Name() == "ReplicaSet" })
	c := r.Current().Controllers()[i]
	question := func(parent types.UID) *wire.ReconcileInput {
		in := &wire.ReconcileInput{Now: 1, Parent: wire.ControlObject{Kind: c.Parent(), Object: &metav1.ObjectMeta{Name: string(parent), UID: parent, ResourceVersion: "1"}}}
		for i := range 15_000 {
			in.Children = append(in.Children, wire.ControlObject{
				Kind: c.Children()[0], Pod: &wire.PodFacts{Phase: "Running", NodeName: fmt.Sprint("node-", i)}, Fields: []json.RawMessage{nil},
				Object: &metav1.ObjectMeta{Name: fmt.Sprint("web-", strings.Repeat("x", 200), i), UID: types.UID(fmt.Sprint(parent, "-", i)), ResourceVersion: fmt.Sprint(i + 1)},
			})
		}
		if n := len(wire.NewEncoder().Reconcile(in)); n < 4<<20 {
			t.Fatalf("a question of %d bytes is not large", n)
		}
		return in
	}
	var took []int64
	for _, parent := range []types.UID{"a", "a", "a", "b"} {
		before := r.figures(t, "ReplicaSet").Fuel
		if _, err := c.Reconcile(t.Context(), question(parent)); err != nil {
			t.Fatal(err)
		}
		took = append(took, r.figures(t, "ReplicaSet").Fuel-before)
	}
	if took[1] > took[0]/3 || took[2] > took[0]/3 || took[3] < took[0]/2 {
		t.Errorf("questions took %d fuel: want the second and third, about the same parent, to take far less than the first and the last", took)
	}
}

// A host that stops asks no more: that is nothing a policy did.
func TestAnAskerThatLeavesIsNoFailureOfThePolicy(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "TripsReconciling", "")
	for _, c := range r.Current().Controllers() {
		if c.Name() != "troubled" {
			continue
		}
		parent := wire.ControlObject{Kind: c.Parent(), Object: &metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Fields: []json.RawMessage{json.RawMessage(`"panic"`)}}
		ctx, leave := context.WithCancel(t.Context())
		leave()
		if _, err := c.Reconcile(ctx, &wire.ReconcileInput{Now: 1, Parent: parent}); !errors.Is(err, context.Canceled) {
			t.Errorf("Reconcile = %v", err)
		}
	}
	if f := r.figures(t, "troubled"); f.Failures != 0 || f.LastFailure != "" {
		t.Errorf("%d failures: %s", f.Failures, f.LastFailure)
	}
}

// Guests may say any nonsense about what they are at.
func TestWhatAGuestSaysItIsAtIsNotBelieved(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ at, says int32 }{
		"a row that is none": {at: 512, says: 1 << 30}, "a negative row": {at: 512, says: -7}, "the last bytes of memory": {at: 64<<16 - 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.withNodes(4)
			g := guest{Name: "made", Version: "1", Refuse: -1}
			g.Also = func(m *Module) {
				m.Export("berth_at", Sig(nil, I32), nil, I32Const(tt.at))
				m.Export("berth_filter", Sig([]byte{I32}, I64), nil, I32Const(tt.at), I32Const(tt.says), Op(0x36, 2, 0), Op(0))
			}
			r.put(t, "made", withModule(r.upload(t, g.Bytes())))
			r.join(t, "made", "predicate")
			r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
			if f := r.figures(t, "made"); f.Traps != 1 || !strings.Contains(f.LastFailure, "/p") {
				t.Errorf("%d traps: %s", f.Traps, f.LastFailure)
			}
		})
	}
	r := newRig(t)
	g := guest{Name: "made", Version: "1", Refuse: -1, Also: func(m *Module) { m.Export("berth_at", Sig(nil, I32), nil, I32Const(-4)) }}
	p := r.put(t, "made", withModule(r.upload(t, g.Bytes())))
	if p.Status.Phase != v1alpha1.PhaseRefused || !strings.Contains(p.Status.Message, "outside of its") {
		t.Errorf("a place outside of memory: %s: %s", p.Status.Phase, p.Status.Message)
	}
}
