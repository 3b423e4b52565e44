package policytest

import (
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
)

// Cases are for a policy that is asked about objects, not about nodes.
type Cases[C any] struct {
	// Policy names it in the module; by default its only one.
	Policy string
	// Config is its settings as JSON.
	Config string
	Cases  []C
}

// asker is a case of a policy that is asked about objects, not about nodes.
type asker[C any] interface {
	*C
	name() string
	run(t *testing.T, in *guest.Instance, tape *tape)
}

// runCases opens the policy for each case, and asks about it: objects of different
// cases may have a UID and resourceVersion in common.
func runCases[C any, A asker[C]](t *testing.T, table *Cases[C], asked func(*Cases[C]) (*Asked, error)) {
	t.Helper()
	config := openConfig(table.Policy, table.Config)
	tape := newTape(t)
	for i := range table.Cases {
		in, err := guest.Open(config)
		if err != nil {
			t.Fatal(err)
		}
		tape.status(abi.FuncOpen, config)
		c := A(&table.Cases[i])
		tape.asks(c.name())
		t.Run(c.name(), func(t *testing.T) { c.run(t, in, tape) })
	}
	if err := tape.write(); err != nil {
		t.Fatal(err)
	}
	if err := tape.keepAsked(func() (*Asked, error) { return asked(table) }); err != nil {
		t.Fatal(err)
	}
}

// RunGuest asks a table of a guest in whatever language: of an instance that
// was initialised and nothing else. berth_reasons gets its number as four bytes.
func RunGuest(t *testing.T, table Table, guest Guest) {
	t.Helper()
	g := &guestRunner{table: &table, guest: guest, reasons: []abi.Reason{{}}}
	batch, err := encodeCluster(&table)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		export string
		in     []byte
	}{{abi.FuncOpen, openConfig(table.Policy, table.Config)}, {abi.FuncApply, batch}} {
		if _, status, err := guest(step.export, step.in); err != nil || status != abi.StatusOK {
			t.Fatalf("%s = %d, %v", step.export, status, err)
		}
	}
	for i := range table.Cases {
		c := &table.Cases[i]
		t.Run(c.Name, func(t *testing.T) { g.run(t, c) })
	}
}

type guestRunner struct {
	table   *Table
	guest   Guest
	reasons []abi.Reason
}

func (g *guestRunner) run(t *testing.T, c *Case) {
	t.Helper()
	pod, err := encodePod(&c.Pod, batchSeq, c.Now)
	if err != nil {
		t.Fatal(err)
	}
	_, packed, err := g.guest(abi.FuncPod, pod)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := abi.ReadPodAnswer(packed)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range slices.Sorted(maps.Keys(c.Want)) {
		got, err := g.filter(name, answer)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.Want[name] {
			t.Errorf("berth_filter on %s = %q, want %q", name, got, c.Want[name])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.Scores)) {
		got, err := g.score(name, answer)
		if err != nil {
			t.Fatal(err)
		}
		if got != c.Scores[name] {
			t.Errorf("berth_score on %s = %d, want %d", name, got, c.Scores[name])
		}
	}
}

func (g *guestRunner) row(name string) ([]byte, error) {
	at := slices.IndexFunc(g.table.Nodes, func(n Node) bool { return n.Name == name })
	if at < 0 {
		return nil, fmt.Errorf("the table has no node %s", name)
	}
	return binary.LittleEndian.AppendUint32(nil, uint32(at)), nil
}

func (g *guestRunner) filter(node string, answer abi.PodAnswer) (string, error) {
	switch answer.Ask {
	case abi.AskSkip:
		return "", nil
	case abi.AskRefuse:
		return g.reason(answer.Reason)
	}
	row, err := g.row(node)
	if err != nil {
		return "", err
	}
	out, _, err := g.guest(abi.FuncFilter, row)
	if err != nil {
		return "", err
	}
	verdicts, err := abi.ReadVerdicts(out, 1)
	if err != nil {
		return "", err
	}
	return g.reason(uint32(verdicts[0]))
}

// reason asks for what the table of reasons has beyond those that are known.
func (g *guestRunner) reason(index uint32) (string, error) {
	if int(index) >= len(g.reasons) {
		out, _, err := g.guest(abi.FuncReasons, binary.LittleEndian.AppendUint32(nil, uint32(len(g.reasons))))
		if err != nil {
			return "", err
		}
		more, err := abi.ReadReasons(out)
		if err != nil {
			return "", err
		}
		g.reasons = append(g.reasons, more...)
	}
	if int(index) >= len(g.reasons) {
		return "", fmt.Errorf("a verdict names reason %d of a table of %d", index, len(g.reasons))
	}
	return g.reasons[index].Text, nil
}

func (g *guestRunner) score(node string, answer abi.PodAnswer) (int64, error) {
	if answer.Ask != abi.AskRows {
		return 0, nil
	}
	row, err := g.row(node)
	if err != nil {
		return 0, err
	}
	out, _, err := g.guest(abi.FuncScore, row)
	if err != nil {
		return 0, err
	}
	var scores [1]int64
	err = abi.ReadScores(out, scores[:])
	return scores[0], err
}
