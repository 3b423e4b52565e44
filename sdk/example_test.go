package sdk_test

import (
	"fmt"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/observe"
	"github.com/berth-dev/berth/sdk/reconcile"
)

type gpuOnly struct{ label string }

func (g *gpuOnly) Configure(c sdk.Config) error {
	g.label = c.String("label", "accelerator")
	return c.OnlyKeys("label")
}

func (g *gpuOnly) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if node.Label(g.label) != "" && pod.Request("nvidia.com/gpu") == 0 {
		return sdk.Reject("node is kept for GPU pods")
	}
	return sdk.Admit
}

// A predicate says which nodes may take a pod. A module registers it in init;
// the manifest then tells the host what it is and what it reads.
func ExamplePredicate() {
	sdk.Predicate("GPUOnly", &gpuOnly{}, sdk.Reads(sdk.PodRequests|sdk.NodeLabels))
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		fmt.Println(err)
		return
	}
	p := m.Find("GPUOnly")
	fmt.Println(p.Kind, p.Reads)
	// Output: predicate [pod.requests node.labels]
}

type emptiest struct{}

func (emptiest) Score(_ *sdk.Pod, node *sdk.Node) int64 { return node.Free("cpu") }

// A priority gives raw scores; Normalize says how they become 0…100.
func ExamplePriority() {
	sdk.Priority("Emptiest", emptiest{}, sdk.Reads(sdk.NodeCapacity|sdk.NodeUsage), sdk.Normalize(sdk.NormalizeMax))
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Find("Emptiest").Normalize)
	// Output: max
}

type wellGate struct{}

func (wellGate) Configure(c sdk.Config) error { return c.OnlyKeys("observe") }

func (wellGate) Check(_ int64, pod *gate.Pod) gate.Readiness {
	for _, seen := range pod.Observations {
		if !seen.OK {
			return gate.Readiness{Status: gate.False, Reason: "NotYet", Message: seen.Detail, RequeueAfter: time.Second}
		}
	}
	return gate.Readiness{Status: gate.True, Reason: "AllWell"}
}

// A gate says what the host shall observe of each pod, and decides by that.
func ExampleGate() {
	sdk.Gate("WellGate", wellGate{}, []string{"example.test/Well"},
		sdk.Observe(observe.HTTPGet("health", "https", "/healthz?full=1", observe.HTTPS(), observe.Header("Host", "shop.example")), observe.PodsReady("database", "app=db")))
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, o := range m.Find("WellGate").Observe {
		fmt.Println(o.Name, o.Kind, o.Scheme, o.Port, o.Path, o.Headers)
	}
	fmt.Println(wellGate{}.Check(0, &gate.Pod{Observations: []gate.Observation{{OK: true}, {Detail: "0 of 1 pods are ready"}}}).Message)
	// Output:
	// health http HTTPS https /healthz?full=1 [{Host shop.example}]
	// database pods    []
	// 0 of 1 pods are ready
}

type noted struct{}

// A controller says which children there should be; the host makes them.
func (noted) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
	if len(r.Children) > 0 {
		return reconcile.Result{}, nil
	}
	j := &json.Writer{}
	j.Open('{').Key("apiVersion").Text("v1").Key("kind").Text("ConfigMap")
	j.Key("data").Open('{').Key("parent").Text(r.Parent.Name).Close('}').Close('}')
	return reconcile.Result{Create: []reconcile.Creation{{Object: string(j.Bytes()), Count: 1}}}, nil
}

func ExampleController() {
	sdk.Controller("Noted", noted{},
		reconcile.Kind{APIVersion: "batch/v1", Kind: "Job"}, []reconcile.Kind{{APIVersion: "v1", Kind: "ConfigMap"}})
	out, err := noted{}.Reconcile(&reconcile.Request{Parent: reconcile.Object{Name: "report"}})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(out.Create[0].Object)
	// Output: {"apiVersion":"v1","kind":"ConfigMap","data":{"parent":"report"}}
}

// Settings are read without encoding/json, which costs a guest 240 KB.
func ExampleConfig() {
	c, err := json.Parse([]byte(`{"label":"rack","most":3}`))
	if err != nil {
		fmt.Println(err)
		return
	}
	most, err := c.Int("most", 1, 10, 5)
	fmt.Println(c.String("label", "zone"), most, err)
	fmt.Println(c.OnlyKeys("label"))
	// Output:
	// rack 3 <nil>
	// unknown setting most
}

// Counters stand on /metrics, beside what the host counts of the policy.
func ExampleNewCounter() {
	strange := sdk.NewCounter("strange_annotations", "Annotations that are no number.")
	strange.Add(1)
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Counters[0].Name)
	// Output: strange_annotations
}
