package oracle

import (
	"encoding/json"
	"testing"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/sdk/guest"
)

// speaker is an opened policy, wherever it runs. It takes and gives the bytes
// of the ABI.
type speaker interface {
	apply(in []byte) error
	pod(in []byte) (packed uint64, err error)
	filter(rows []byte) ([]byte, error)
	score(rows []byte) ([]byte, error)
	explain(row uint32) ([]byte, error)
	refusal() ([]byte, error)
	reasons(from uint32) ([]byte, error)
	close()
}

// opener opens the policy that a config names.
type opener func(t *testing.T, policy string, config []byte) speaker

// native runs the policy in this process.
type native struct{ in *guest.Instance }

func openNative(t *testing.T, policy string, config []byte) speaker {
	in, err := guest.Open(config)
	if err != nil {
		t.Fatalf("open %s: %v", policy, err)
	}
	return native{in}
}

func (n native) apply(in []byte) error { return n.in.Apply(in) }

func (n native) pod(in []byte) (uint64, error) {
	a, err := n.in.Pod(in)
	return a.Packed(), err
}

func (n native) filter(rows []byte) ([]byte, error)  { return n.in.Filter(rows) }
func (n native) score(rows []byte) ([]byte, error)   { return n.in.Score(rows) }
func (n native) explain(row uint32) ([]byte, error)  { return n.in.Explain(row) }
func (n native) refusal() ([]byte, error)            { return n.in.Refusal() }
func (n native) reasons(from uint32) ([]byte, error) { return n.in.Reasons(from), nil }
func (n native) close()                              {}

// judge is one policy over a cluster.
type judge struct {
	t        *testing.T
	speaker  speaker
	manifest *abi.Policy
	encoder  *wire.Encoder
	sent     uint64
	cluster  *snapshot.Cluster
	table    []abi.Reason
}

func (o opener) over(t *testing.T, name, config string, cluster *snapshot.Cluster) *judge {
	t.Helper()
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	g := &judge{t: t, manifest: m.Find(name), encoder: wire.NewEncoder(), cluster: cluster}
	if g.manifest == nil {
		t.Fatalf("there is no policy %s", name)
	}
	settings, err := json.Marshal(abi.OpenConfig{Policy: name, Config: json.RawMessage(config)})
	if err != nil {
		t.Fatal(err)
	}
	g.speaker = o(t, name, settings)
	var deltas []snapshot.Delta
	cluster.Base(func(d snapshot.Delta) bool {
		deltas = append(deltas, d)
		return true
	})
	g.apply(deltas)
	return g
}

// must fails the test, naming the policy.
func (g *judge) must(what string, err error) {
	g.t.Helper()
	if err != nil {
		g.t.Fatalf("%s: %s: %v", g.manifest.Name, what, err)
	}
}

func (g *judge) apply(deltas []snapshot.Delta) {
	g.t.Helper()
	batch, seq := g.encoder.Deltas(deltas, g.manifest.Groups())
	if batch == nil {
		return
	}
	g.must("apply", g.speaker.apply(batch))
	g.sent = seq
}

func (g *judge) pod(pod *v1.Pod) abi.PodAnswer {
	g.t.Helper()
	packed, err := g.speaker.pod(g.encoder.Pod(g.sent, 0, snapshot.NewPod(pod), g.manifest.Groups()))
	g.must("pod", err)
	a, err := abi.ReadPodAnswer(packed)
	g.must("pod", err)
	return a
}

// filter asks about slots. Admission is a Reason without text.
func (g *judge) filter(a abi.PodAnswer, slots []int32) []abi.Reason {
	g.t.Helper()
	verdicts := make([]abi.Reason, len(slots))
	switch a.Ask {
	case abi.AskSkip:
		return verdicts
	case abi.AskRefuse:
		said := g.reason(a.Reason)
		out, err := g.speaker.refusal()
		g.must("refusal", err)
		words, err := abi.ReadReasons(out)
		g.must("refusal", err)
		if len(words) > 0 {
			said = words[0]
		}
		for i := range verdicts {
			verdicts[i] = said
		}
		return verdicts
	}
	out, err := g.speaker.filter(g.encoder.Rows(slots))
	g.must("filter", err)
	out, err = abi.ReadVerdicts(out, len(slots))
	g.must("filter", err)
	out = append([]byte(nil), out...) // the next call may take its place
	for i, id := range out {
		verdicts[i] = g.reason(uint32(id))
	}
	return verdicts
}

func (g *judge) reason(id uint32) abi.Reason {
	g.t.Helper()
	if id == 0 {
		return abi.Reason{}
	}
	if int(id) > len(g.table) {
		out, err := g.speaker.reasons(uint32(len(g.table)) + 1)
		g.must("reasons", err)
		more, err := abi.ReadReasons(out)
		g.must("reasons", err)
		g.table = append(g.table, more...)
	}
	return g.table[id-1]
}

func (g *judge) explain(slot int32) (texts []string) {
	g.t.Helper()
	out, err := g.speaker.explain(uint32(slot))
	g.must("explain", err)
	reasons, err := abi.ReadReasons(out)
	g.must("explain", err)
	for _, r := range reasons {
		texts = append(texts, r.Text)
	}
	return texts
}

func (g *judge) score(slots []int32) []int64 {
	g.t.Helper()
	out, err := g.speaker.score(g.encoder.Rows(slots))
	g.must("score", err)
	scores := make([]int64, len(slots))
	g.must("score", abi.ReadScores(out, scores))
	return scores
}
