package policytest

import (
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
)

// Asked is what a policy of another sort than predicates and priorities is
// asked, for benchmarks.
type Asked struct {
	Policy string `json:"policy"`
	Open   []byte `json:"open"`
	// Export is the function that is called with each of the inputs, about
	// Each pods or parents.
	Export string   `json:"export"`
	Inputs [][]byte `json:"inputs"`
	Each   int      `json:"each"`
}

// podsACall is how many pods a host asks a gate about at once.
const podsACall = 256

// AskedOfGate asks about the cases' pods, over and over, as many as a host
// asks about in one call.
func AskedOfGate(table *GateTable) (*Asked, error) {
	in, err := encodeGates(table.Cases, podsACall)
	a := &Asked{Policy: table.Policy, Open: openConfig(table.Policy, table.Config), Export: abi.FuncGate, Inputs: [][]byte{in}, Each: podsACall}
	return a, err
}

// AskedOfController asks about the cases' parents, one in a call.
func AskedOfController(table *ControllerTable) (*Asked, error) {
	a := &Asked{Policy: table.Policy, Open: openConfig(table.Policy, table.Config), Export: abi.FuncReconcile, Each: 1}
	for i := range table.Cases {
		a.Inputs = append(a.Inputs, encodeReconcile(&table.Cases[i]))
	}
	return a, nil
}

// keepAsked writes beside the recording what is asked.
func (t *tape) keepAsked(asked func() (*Asked, error)) error {
	if t.path == "" || os.Getenv(Allocations) == "" {
		return nil
	}
	a, err := asked()
	if err != nil {
		return err
	}
	r := Recorded{Asked: a}
	if r.Allocs, err = a.allocations(); err != nil {
		return err
	}
	return t.leave(&r)
}

func (t *tape) leave(r *Recorded) error {
	b, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(strings.TrimSuffix(t.path, ".json")+tableSuffix, b, 0o600)
}

// allocations counts what each call allocates: the least of some, since others
// in the process allocate too.
func (a *Asked) allocations() ([]float64, error) {
	const runs = 10
	in, err := guest.Open(a.Open)
	if err != nil {
		return nil, err
	}
	list := make([]float64, len(a.Inputs))
	for i, input := range a.Inputs {
		least := uint64(1 << 62)
		for range runs {
			n, err := a.mallocs(in, input)
			if err != nil {
				return nil, err
			}
			least = min(least, n)
		}
		list[i] = float64(least)
	}
	return list, nil
}

func (a *Asked) mallocs(in *guest.Instance, input []byte) (uint64, error) {
	call := in.Gate
	if a.Export == abi.FuncReconcile {
		call = in.Reconcile
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	_, err := call(input)
	runtime.ReadMemStats(&after)
	if err != nil {
		err = fmt.Errorf("%s: %w", a.Export, err)
	}
	return after.Mallocs - before.Mallocs, err
}
