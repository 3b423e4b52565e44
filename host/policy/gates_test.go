package policy_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/wire"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// Pods with large annotations do not fit into one call together. That is no
// reason for a gate to fail, all the less for the pods beside them.
func TestAGateIsAskedAboutLargePodsInPieces(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gate := r.Current().Gates()["berth.dev/MinReadySeconds"]
	if gate == nil {
		t.Fatalf("no gate claims it: %v", r.Current().Gates())
	}
	var pods []wire.GatePod
	for i := range 120 {
		pod := clustertest.Pod(fmt.Sprint("web-", i), "1m", "1Mi", func(p *v1.Pod) {
			p.Annotations = map[string]string{"large": strings.Repeat("x", 250<<10)}
		})
		pods = append(pods, wire.GatePod{Pod: pod, Condition: "berth.dev/MinReadySeconds"})
	}
	answers, err := gate.Judge(t.Context(), time.Now().UnixNano(), pods)
	if err != nil || len(answers) != len(pods) {
		t.Fatalf("Judge of %d large pods = %d answers, %v", len(pods), len(answers), err)
	}
}

// A gate's first call is its dearest: its memory grows, and is collected on the
// way. A third of the budget has to be left to guests that do more.
func TestAFreshGateHasFuelToSpare(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	gate := r.Current().Gates()["berth.dev/MinReadySeconds"]
	const about = 100 // bytes by pod, of which a budget knows
	var pods []wire.GatePod
	for i := range 256 {
		pod := clustertest.Pod(fmt.Sprint("web-", i), "1m", "1Mi", func(p *v1.Pod) {
			p.Annotations = map[string]string{"berth.dev/min-ready-seconds": "5", "about": strings.Repeat("x", about)}
			for _, kind := range []v1.PodConditionType{v1.PodScheduled, v1.PodInitialized, v1.ContainersReady} {
				p.Status.Conditions = append(p.Status.Conditions, v1.PodCondition{Type: kind, Status: v1.ConditionTrue, LastTransitionTime: metav1.Unix(1, 0)})
			}
		})
		pods = append(pods, wire.GatePod{Pod: pod, Condition: "berth.dev/MinReadySeconds"})
	}
	if _, err := gate.Judge(t.Context(), time.Now().UnixNano(), pods); err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Figures() {
		if f.Name != gate.Name() {
			continue
		}
		if least := engine.AskBudget(len(pods), 0, len(pods)*about, 0); f.Calls != 1 || f.Fuel == 0 || f.Fuel > int64(least)*2/3 {
			t.Errorf("%d calls take %d units of fuel, want one of at most two thirds of %d", f.Calls, f.Fuel, least)
		}
		return
	}
	t.Errorf("no figures of %s", gate.Name())
}

// What a host does not know it cannot look at: better a refusal than a gate
// that observes something else.
func TestAConfigWithASlipInWhatToObserveIsRefused(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ name, config, err string }{
		{"a member that nobody knows", `{"observe":[{"name":"up","kind":"http","port":80,"headers":[]}]}`, `unknown field "headers"`},
		{"a port of another type", `{"observe":[{"name":"up","kind":"http","port":true}]}`, "neither a number nor a string"},
		{"a selector that does not parse", `{"observe":[{"name":"db","kind":"pods","selector":"app in (db"}]}`, "observe db: "},
		{"a port out of range", `{"observe":[{"name":"up","kind":"tcp","port":0}]}`, "1 to 65535"},
		{"no list", `{"observe":{"name":"up"}}`, "observe: json"},
	} {
		if _, err := sandbox.Observes(nil, []byte(tt.config)); err == nil || !strings.Contains(err.Error(), tt.err) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.err)
		}
	}
	if wants, err := sandbox.Observes(nil, []byte(`{"after":"5s"}`)); err != nil || len(wants) != 0 {
		t.Errorf("a config that wants nothing observed: %v, %v", wants, err)
	}
}

// The SPEC says that the config's member takes the manifest's place: an empty
// one too.
func TestAConfigMayWantNothingObserved(t *testing.T) {
	t.Parallel()
	manifest := []abi.Observe{{Name: "health", Kind: abi.ObserveHTTP, Port: "8080"}}
	for config, want := range map[string]int{``: 1, `{}`: 1, `{"observe":null}`: 1, `{"observe":[]}`: 0} {
		if wants, err := sandbox.Observes(manifest, []byte(config)); err != nil || len(wants) != want {
			t.Errorf("with the config %s it observes %v, %v; want %d", config, wants, err, want)
		}
	}
}

// A condition that a pod cannot name, or that others write, is claimed by a slip.
func TestAGateClaimsConditionsOfItsOwn(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]string{
		"example.test/Warm": "", "warm": "",
		"": "can be no pod's gate", "a b": "can be no pod's gate", "example.test/a/b": "can be no pod's gate",
		"Ready": "is Kubernetes' own", "ContainersReady": "is Kubernetes' own", "PodScheduled": "is Kubernetes' own",
	} {
		err := sandbox.CheckConditionTypes([]string{"example.test/First", name})
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q: %v, want %q", name, err, want)
		}
	}
}
