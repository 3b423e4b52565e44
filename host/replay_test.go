package host_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/polltest"
)

// Shadows and canaries watch while others decide, and trap at it; a canary
// decides a share, and is rolled back. Each decision comes out again, those of
// preemption too, and whoever watched then is not asked: neither of the log in
// memory nor, after a restart, of the recording.
func TestDecisionsUnderShadowsAndCanariesAreDerivedAgain(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	recording := func(c *host.Config) { c.Record = kept }
	client, serving, stop := start(t, dir, recording)
	for i := range 3 {
		createNode(t, client, fmt.Sprint("n", i))
	}
	watched(t, client, serving)
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: "urgent"}, Value: 1000}
	if _, err := client.SchedulingV1().PriorityClasses().Create(t.Context(), class, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sized := func(name, cpu string) *v1.Pod {
		p := plainPod(name)
		p.Spec.Containers[0].Resources.Requests["cpu"] = resource.MustParse(cpu)
		return p
	}
	for i := range 15 {
		name := fmt.Sprint("w", i)
		create(t, client, sized(name, "800m"))
		bound(t, client, name)
	}
	urgent := sized("urgent", "2")
	urgent.Spec.PriorityClassName = "urgent"
	create(t, client, urgent)
	await(t, client, "urgent", "has room made", func(p *v1.Pod) bool { return p.Status.NominatedNodeName != "" })
	before := callsOf(t, serving)
	var first explain.Report
	askJSON(t, serving, "GET", "/api/v1/namespaces/default/pods/w0/explain", "", &first)
	replays := func(when, next string) (n, rooms int) {
		for ; ; n++ {
			code, text := ask(t, serving, "GET", fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, first.Decision.Number+uint64(n)), "")
			if code == http.StatusNotFound && strings.Contains(text, next) {
				return n, rooms
			}
			var again berthapi.Replay
			if err := json.Unmarshal([]byte(text), &again); code != http.StatusOK || err != nil || !again.Same || again.Note != "" {
				t.Errorf("%s, decision %d = %d %s, %v", when, n, code, text, err)
				if code != http.StatusOK {
					return n, rooms
				}
			}
			if again.Room != nil && len(again.Room.Victims) > 0 {
				rooms++
			}
		}
	}
	n, rooms := replays("from memory", "has not been made")
	if n < 16 || rooms == 0 {
		t.Errorf("%d decisions are derived again, in %d of which room was made", n, rooms)
	}
	if after := callsOf(t, serving); before["watching"] == 0 || after["watching"] != before["watching"] {
		t.Errorf("the shadow was called %d times, and %d times after the replays", before["watching"], after["watching"])
	}
	var list v1alpha1.PolicyList
	askJSON(t, serving, "GET", "/apis/policy.berth.dev/v1alpha1/policies", "", &list)
	phases := map[string]string{}
	for _, p := range list.Items {
		if c := p.Status.Canary; c != nil {
			phases[p.Name] = c.Phase
		}
	}
	if want := map[string]string{"liking": v1alpha1.PhaseRunning, "trying": v1alpha1.PhaseRolledBack}; !maps.Equal(phases, want) {
		t.Errorf("the canaries are %v, want %v", phases, want)
	}
	stop()
	_, serving, _ = start(t, dir, recording)
	if again, _ := replays("from the recording", "in no recording"); again < n {
		t.Errorf("of %d decisions, %d are derived again from the recording", n, again)
	}
}

// watched puts into the default profile a shadow which traps, a priority with a
// canary that prefers otherwise, and a predicate with one that traps.
func watched(t *testing.T, client kubernetes.Interface, s host.Serving) {
	t.Helper()
	made := func(g policytest.Guest) string {
		t.Helper()
		code, text := postModule(t, s, g.Bytes())
		var m v1alpha1.Module
		if err := json.Unmarshal([]byte(text), &m); code != http.StatusCreated || err != nil {
			t.Fatalf("module of %s = %d %s", g.Name, code, text)
		}
		return m.Name
	}
	for name, spec := range map[string]v1alpha1.PolicySpec{
		"watching": {Module: made(policytest.Guest{Name: "watching", Version: "1", Mask: 1, Refuse: 0, Traps: 2}), Mode: v1alpha1.Shadow},
		"liking": {
			Module: made(policytest.Guest{Name: "liking", Kind: "priority", Version: "1", Times: 1}),
			Canary: &v1alpha1.Canary{Module: made(policytest.Guest{Name: "liking", Kind: "priority", Version: "2", Times: -1}), Share: 40},
		},
		"trying": {
			Module: made(policytest.Guest{Name: "trying", Version: "1", Refuse: -1}),
			Canary: &v1alpha1.Canary{Module: made(policytest.Guest{Name: "trying", Version: "2", Refuse: -1, Traps: 4}), Share: 70},
		},
	} {
		spec.Entry = name
		if code, text := postObject(t, s, "policies", "Policy", &v1alpha1.Policy{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: spec}); code != http.StatusCreated {
			t.Fatalf("policy %s = %d %s", name, code, text)
		}
	}
	path := "/apis/policy.berth.dev/v1alpha1/profiles/default"
	data, err := client.CoreV1().RESTClient().Patch(types.JSONPatchType).AbsPath(path).Body([]byte(
		`[{"op":"add","path":"/spec/predicates/-","value":{"name":"watching"}},{"op":"add","path":"/spec/predicates/-","value":{"name":"trying"}},` +
			`{"op":"add","path":"/spec/priorities/-","value":{"name":"liking","weight":5}}]`)).DoRaw(t.Context())
	var p v1alpha1.Profile
	if err = errors.Join(err, json.Unmarshal(data, &p)); err != nil {
		t.Fatal(err)
	}
	ready := func() bool {
		askJSON(t, s, "GET", path, "", &p)
		if p.Status.ObservedGeneration < p.Generation {
			return false
		}
		var list v1alpha1.PolicyList
		askJSON(t, s, "GET", "/apis/policy.berth.dev/v1alpha1/policies", "", &list)
		for _, one := range list.Items {
			if one.Status.Phase != v1alpha1.PhaseLive || one.Spec.Canary != nil && one.Status.Canary == nil {
				return false
			}
		}
		return true
	}
	polltest.Until(t, "the policies are live", ready)
}

// callsOf tells how often each policy was called.
func callsOf(t *testing.T, s host.Serving) map[string]int64 {
	t.Helper()
	var all []sandbox.Figures
	askJSON(t, s, "GET", berthapi.FiguresPath, "", &all)
	calls := map[string]int64{}
	for _, f := range all {
		calls[f.Name] += f.Calls
	}
	return calls
}
