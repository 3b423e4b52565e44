package policytest

import (
	"encoding/binary"
	"maps"
	"slices"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/json"
)

// Node is a node of a table. Amounts are Kubernetes quantities: "500m", "2Gi".
type Node struct {
	Name                string
	Labels, Annotations map[string]string
	// Taints are written key=value:Effect.
	Taints        []string
	Unschedulable bool
	// Conditions are statuses by type: "Ready": "True".
	Conditions             map[string]string
	Allocatable, Requested map[string]string
	// Images are sizes in bytes by name.
	Images map[string]int64
	// Volumes are those that its pods hold.
	Volumes []Volume
}

// Pod is a pod of a table.
type Pod struct {
	Namespace           string
	Labels, Annotations map[string]string
	Requests            map[string]string
	NodeName            string
	NodeSelector        map[string]string
	Tolerations         []Toleration
	Images              []string
	Priority            int32
	// Controller is the owner that controls the pod, none if it has no kind.
	Controller Controller

	Affinity, AntiAffinity                   []Term
	PreferredAffinity, PreferredAntiAffinity []Term
	Spread                                   []Spread
	Volumes                                  []Volume
}

// Controller is an owner that controls a pod.
type Controller struct{ Kind, Name, UID string }

// Toleration is one toleration. An empty Operator is Equal.
type Toleration struct{ Key, Operator, Value, Effect string }

// Case is one pod and what the policy should say.
type Case struct {
	Name string
	// Now is the host's clock, for readers of time: nanoseconds since 1970.
	Now int64
	Pod Pod
	// Want are a predicate's reasons by node; an empty one admits. Nodes that
	// are not named are not looked at.
	Want map[string]string
	// Scores are a priority's raw scores by node.
	Scores map[string]int64
}

// Table is nodes, and cases about them.
type Table struct {
	// Policy names the policy in the module; by default its only one.
	Policy string
	// Config is the policy's settings as JSON.
	Config string
	Nodes  []Node
	// Namespaces are labels by namespace. They, Services and Placed are for
	// policies of scope set.
	Namespaces map[string]map[string]string
	Services   []Service
	Placed     []Placed
	Cases      []Case
}

// Run opens the policy, tells it of the nodes and asks about each case.
func Run(t *testing.T, table Table) {
	t.Helper()
	r := &runner{table: &table, tape: newTape(t)}
	if err := r.open(); err != nil {
		t.Fatal(err)
	}
	for i := range table.Cases {
		c := &table.Cases[i]
		t.Run(c.Name, func(t *testing.T) { r.run(t, c) })
	}
	if err := r.tape.write(); err != nil {
		t.Fatal(err)
	}
	if err := r.tape.keep(&table); err != nil {
		t.Fatal(err)
	}
}

// Refuses checks that the policy does not take settings.
func Refuses(t *testing.T, policy, config string) {
	t.Helper()
	if _, err := guest.Open(openConfig(policy, config)); err == nil {
		t.Errorf("%s took the settings %s", policy, config)
	}
}

func openConfig(policy, config string) []byte {
	j := &json.Writer{}
	j.Open('{').Key("policy").Text(policy)
	if config != "" {
		j.Key("config").Value(config)
	}
	return j.Close('}').Bytes()
}

type runner struct {
	table *Table
	in    *guest.Instance
	tape  *tape
}

func (r *runner) open() (err error) {
	config := openConfig(r.table.Policy, r.table.Config)
	if r.in, err = guest.Open(config); err != nil {
		return err
	}
	r.tape.status(abi.FuncOpen, config)
	batch, err := encodeCluster(r.table)
	if err != nil {
		return err
	}
	r.tape.status(abi.FuncApply, batch)
	return r.in.Apply(batch)
}

func (r *runner) run(t *testing.T, c *Case) {
	t.Helper()
	r.tape.asks(c.Name)
	pod, err := encodePod(&c.Pod, batchSeq, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := r.in.Pod(pod)
	if err != nil {
		t.Fatal(err)
	}
	r.tape.packed(abi.FuncPod, pod, answer.Packed())
	for _, name := range slices.Sorted(maps.Keys(c.Want)) {
		r.tape.asks(c.Name, "node "+name)
		if got := r.filter(t, name, answer); got != c.Want[name] {
			t.Errorf("Filter on %s = %q, want %q", name, got, c.Want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Scores)) {
		r.tape.asks(c.Name, "node "+name)
		if got := r.score(t, name, answer); got != c.Scores[name] {
			t.Errorf("Score on %s = %d, want %d", name, got, c.Scores[name])
		}
	}
}

// row packs the slot of a node.
func (r *runner) row(t *testing.T, name string) []byte {
	t.Helper()
	at := slices.IndexFunc(r.table.Nodes, func(n Node) bool { return n.Name == name })
	if at < 0 {
		t.Fatalf("the table has no node %s", name)
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(at))
}

func (r *runner) filter(t *testing.T, name string, answer guest.Answer) string {
	t.Helper()
	id := uint8(0)
	switch said, _ := abi.ReadPodAnswer(answer.Packed()); said.Ask {
	case abi.AskRows:
		row := r.row(t, name)
		out, err := r.in.Filter(row)
		if err != nil {
			t.Fatal(err)
		}
		r.tape.bytes(abi.FuncFilter, row, out)
		id = out[0]
	case abi.AskRefuse:
		id = uint8(said.Reason)
		if words := r.refusal(t); words != "" {
			return words
		}
	}
	return r.in.Reason(id).Reason()
}

// refusal is what the policy says of the pod's refusal beyond its table of reasons.
func (r *runner) refusal(t *testing.T) string {
	t.Helper()
	out, err := r.in.Refusal()
	if err != nil {
		t.Fatal(err)
	}
	r.tape.bytes(abi.FuncExplain, nil, out)
	words, err := abi.ReadReasons(out)
	if err != nil {
		t.Fatal(err)
	}
	if len(words) == 0 {
		return ""
	}
	return words[0].Text
}

func (r *runner) score(t *testing.T, name string, answer guest.Answer) int64 {
	t.Helper()
	if answer == guest.Skip {
		return 0
	}
	row := r.row(t, name)
	out, err := r.in.Score(row)
	if err != nil {
		t.Fatal(err)
	}
	r.tape.bytes(abi.FuncScore, row, out)
	return int64(binary.LittleEndian.Uint64(out))
}
