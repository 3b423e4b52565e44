package oracle

import (
	"fmt"
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// naturalRows is how many nodes the natural style is tried on.
const naturalRows = 2000

func naturalCluster() *snapshot.Cluster {
	c := snapshot.New(0)
	for i := range naturalRows {
		c.UpsertNode(policytest.Node(fmt.Sprint("n", i), "64", "256Gi", 110, func(n *v1.Node) {
			n.Status.Allocatable["nvidia.com/gpu"] = resource.MustParse("8")
			n.Status.Allocatable["hugepages-2Mi"] = resource.MustParse("0")
		}))
	}
	return c
}

// A predicate in the plainest style costs what little it says.
func TestTheNaturalStyleIsCheap(t *testing.T) {
	t.Parallel()
	cluster := naturalCluster()
	e, err := engine.New(t.Context(), engine.Config{CacheDir: enginetest.Cache()})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	for _, by := range []struct {
		name string
		find func() (build.Toolchain, error)
		most engine.Fuel // a row
	}{{"preferred", build.Find, 1100}, {"stock", build.Stock, 4200}} {
		with, err := by.find()
		if err != nil {
			t.Fatal(err)
		}
		built, err := with.Build(t.Context(), "testdata/natural", false)
		if err != nil {
			t.Fatal(err)
		}
		m, err := e.Load(t.Context(), built.Wasm, vet.DefaultLimits())
		if err != nil {
			t.Fatal(err)
		}
		defer m.Close()
		for _, name := range []string{"Headroom", "Looping", "Mapped"} {
			for _, cpu := range []string{"1", "99"} {
				each := naturalFuel(t, m, name, cpu, cluster)
				t.Logf("%s by %s, of %s CPU: %d a row", name, with.Name, cpu, each)
				if name == "Headroom" && each > by.most {
					t.Errorf("%s by %s, of %s CPU: %d of fuel a row, want %d at most", name, with.Name, cpu, each, by.most)
				}
			}
		}
	}
}

// naturalFuel is what a row takes, about a pod of so much CPU.
func naturalFuel(t *testing.T, m *engine.Module, name, cpu string, cluster *snapshot.Cluster) engine.Fuel {
	t.Helper()
	in, err := m.Open(t.Context(), engine.OpenConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	g := &judge{t: t, speaker: sandbox{in}, manifest: manifest.Find(name), encoder: wire.NewEncoder(), cluster: cluster}
	g.must("open", sandbox{in}.status(engine.FuncOpen, []byte(`{"policy":"`+name+`"}`)))
	var deltas []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool {
		deltas = append(deltas, d)
		return true
	})
	g.apply(deltas)
	pod := policytest.Pod("p", cpu, "1Gi", func(p *v1.Pod) {
		p.Spec.Containers[0].Resources.Requests["nvidia.com/gpu"] = resource.MustParse("1")
	})
	if a := g.pod(pod); a.Ask != abi.AskRows {
		t.Fatalf("%s asks %v", name, a)
	}
	slots := make([]int32, naturalRows)
	for i := range slots {
		slots[i] = int32(i)
	}
	rows := g.encoder.Rows(slots)
	r, err := in.Call(engine.FuncFilter, rows, 100*engine.PerMillisecond)
	g.must("filter", err)
	return r.Fuel / naturalRows
}
