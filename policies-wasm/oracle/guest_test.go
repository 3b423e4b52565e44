package oracle

import (
	"encoding/binary"
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/sdk"
)

// guest is one policy opened natively over a cluster, spoken to in the bytes
// that a sandbox would be given.
type guest struct {
	t        *testing.T
	in       *sdk.Instance
	manifest *abi.Policy
	encoder  *wire.Encoder
	sent     uint64
	cluster  *snapshot.Cluster
}

func open(t *testing.T, name, config string, cluster *snapshot.Cluster) *guest {
	t.Helper()
	m, err := abi.ReadManifest(sdk.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	g := &guest{t: t, manifest: m.Find(name), encoder: wire.NewEncoder(), cluster: cluster}
	if g.manifest == nil {
		t.Fatalf("there is no policy %s", name)
	}
	settings, _ := json.Marshal(abi.OpenConfig{Policy: name, Config: json.RawMessage(config)})
	if g.in, err = sdk.Open(settings); err != nil {
		t.Fatalf("open %s: %v", name, err)
	}
	var deltas []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool {
		deltas = append(deltas, d)
		return true
	})
	g.apply(deltas)
	return g
}

func (g *guest) apply(deltas []snapshot.Delta) {
	g.t.Helper()
	batch, seq := g.encoder.Deltas(deltas, g.manifest.Groups())
	if batch == nil {
		return
	}
	if err := g.in.Apply(batch); err != nil {
		g.t.Fatalf("%s: apply: %v", g.manifest.Name, err)
	}
	g.sent = seq
}

func (g *guest) pod(pod *v1.Pod) sdk.Answer {
	g.t.Helper()
	a, err := g.in.Pod(g.encoder.Pod(g.sent, 0, snapshot.NewPod(pod), g.manifest.Groups()))
	if err != nil {
		g.t.Fatalf("%s: pod: %v", g.manifest.Name, err)
	}
	return a
}

// filter asks about slots, and gives the verdicts by slot.
func (g *guest) filter(a sdk.Answer, slots []int32) []sdk.Verdict {
	g.t.Helper()
	verdicts := make([]sdk.Verdict, len(slots))
	switch {
	case a == sdk.Skip:
		return verdicts
	case a != sdk.AskRows:
		for i := range verdicts {
			verdicts[i] = g.in.Reason(a.Reason())
		}
		return verdicts
	}
	out, err := g.in.Filter(g.encoder.Rows(slots))
	if err != nil {
		g.t.Fatalf("%s: filter: %v", g.manifest.Name, err)
	}
	for i, id := range out {
		verdicts[i] = g.in.Reason(id)
	}
	return verdicts
}

func (g *guest) explain(slot int32) (texts []string) {
	g.t.Helper()
	out, err := g.in.Explain(uint32(slot))
	if err != nil {
		g.t.Fatalf("%s: explain: %v", g.manifest.Name, err)
	}
	reasons, err := abi.ReadReasons(out)
	if err != nil {
		g.t.Fatalf("%s: explain: %v", g.manifest.Name, err)
	}
	for _, r := range reasons {
		texts = append(texts, r.Text)
	}
	return texts
}

func (g *guest) score(slots []int32) []int64 {
	g.t.Helper()
	out, err := g.in.Score(g.encoder.Rows(slots))
	if err != nil {
		g.t.Fatalf("%s: score: %v", g.manifest.Name, err)
	}
	scores := make([]int64, len(slots))
	for i := range scores {
		scores[i] = int64(binary.LittleEndian.Uint64(out[8*i:]))
	}
	return scores
}
