package policytest

import (
	"fmt"
	"os"
	"runtime"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/guest"
)

// Allocations is the environment variable that asks Run to count, beside what
// it records, what the policy allocates natively.
const Allocations = "BERTH_POLICYTEST_ALLOCS"

// Recorded is a table as Run leaves it beside its recording, for benchmarks.
type Recorded struct {
	Table Table `json:"table"`
	// Asked is there for gates and controllers, which have no Table.
	Asked *Asked `json:"asked,omitempty"`
	// Allocs are allocations a case of 1,000 nodes, or a call of Asked; nil if
	// they were not counted.
	Allocs []float64 `json:"allocs,omitempty"`
}

// tableSuffix is how a file with a Recorded ends.
const tableSuffix = ".table"

// Cluster is what a guest is told of a table's nodes, and the pods of its cases.
type Cluster struct {
	Open    []byte
	Batches [][]byte
	Pods    [][]byte
	Rows    int
}

// perBatch is how many nodes a host tells of in one call.
const perBatch = 128

// Cluster makes rows of the table's nodes, over and over until there are n.
func (t *Table) Cluster(n int) (*Cluster, error) {
	if len(t.Nodes) == 0 {
		return nil, fmt.Errorf("the table of %s has no nodes", t.Policy)
	}
	c := &Cluster{Open: openConfig(t.Policy, t.Config), Rows: n}
	for from := 0; from < n; from += perBatch {
		e := newEncoder()
		before, after := e.setting(t)
		var deltas []offset
		if from == 0 {
			deltas = before
		}
		for i := from; i < min(from+perBatch, n); i++ {
			node := t.Nodes[i%len(t.Nodes)]
			if i >= len(t.Nodes) {
				node.Name = fmt.Sprintf("%s-%d", node.Name, i)
			}
			deltas = append(deltas, e.node(int32(i), &node))
		}
		if from+perBatch >= n {
			deltas = append(deltas, after...)
		}
		list := e.CreateVectorOfTables(deltas)
		fb.BatchStart(e.Builder)
		fb.BatchAddSeq(e.Builder, uint64(len(c.Batches)+1))
		fb.BatchAddDeltas(e.Builder, list)
		e.Finish(fb.BatchEnd(e.Builder))
		if e.err != nil {
			return nil, e.err
		}
		c.Batches = append(c.Batches, e.FinishedBytes())
	}
	for i := range t.Cases {
		pod, err := encodePod(&t.Cases[i].Pod, uint64(len(c.Batches)), t.Cases[i].Now)
		if err != nil {
			return nil, err
		}
		c.Pods = append(c.Pods, pod)
	}
	return c, nil
}

// keep writes the table beside its recording.
func (t *tape) keep(table *Table) error {
	if t.path == "" {
		return nil
	}
	r := Recorded{Table: *table}
	if os.Getenv(Allocations) != "" {
		var err error
		if r.Allocs, err = allocations(table); err != nil {
			return err
		}
	}
	return t.leave(&r)
}

// allocations counts by case what judging 1,000 nodes allocates. Others in the
// process allocate too, so the least of some runs counts.
func allocations(table *Table) ([]float64, error) {
	const nodes, runs = 1000, 10
	c, err := table.Cluster(nodes)
	if err != nil {
		return nil, err
	}
	in, err := guest.Open(c.Open)
	if err != nil {
		return nil, err
	}
	for _, b := range c.Batches {
		if err := in.Apply(b); err != nil {
			return nil, err
		}
	}
	list := make([]float64, len(c.Pods))
	for i, pod := range c.Pods {
		least := uint64(1 << 62)
		for range runs {
			n, err := mallocs(in, pod)
			if err != nil {
				return nil, err
			}
			least = min(least, n)
		}
		list[i] = float64(least)
	}
	return list, nil
}

func mallocs(in *guest.Instance, pod []byte) (uint64, error) {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	answer, err := in.Pod(pod)
	if err != nil {
		return 0, err
	}
	if said, _ := abi.ReadPodAnswer(answer.Packed()); said.Ask == abi.AskRows {
		if _, err = in.Filter(nil); err != nil {
			_, err = in.Score(nil)
		}
	}
	runtime.ReadMemStats(&after)
	return after.Mallocs - before.Mallocs, err
}
