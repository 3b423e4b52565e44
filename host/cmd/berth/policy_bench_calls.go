package main

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/sdk/policytest"
)

// askedOf is what a built-in policy is asked beside one of the same kind: a
// gate about the same pods, a controller about parents of its own.
func askedOf(p *abi.Policy, beside *policytest.Asked) (*policytest.Asked, error) {
	table := policytest.ControllerTable{Policy: p.Name}
	if p.Kind == abi.KindController {
		table.Cases = []policytest.ControllerCase{replicaSet(3)}
		return policytest.AskedOfController(&table)
	}
	a := *beside
	opens, err := policytest.AskedOfController(&table) // all but the inputs
	a.Policy, a.Open = p.Name, opens.Open
	return &a, err
}

// replicaSet is one with as many pods as it wants.
func replicaSet(n int) policytest.ControllerCase {
	labels := map[string]string{"app": "web"}
	c := policytest.ControllerCase{Now: time.Hour.Nanoseconds(), Parent: policytest.Object{
		APIVersion: "apps/v1", Kind: "ReplicaSet", Namespace: "default", Name: "web", UID: "web", Generation: 1,
		Fields: map[string]string{
			"spec.replicas": strconv.Itoa(n), "spec.selector": `{"matchLabels":{"app":"web"}}`,
			"spec.template": `{"metadata":{"labels":{"app":"web"}},"spec":{"containers":[{"name":"c","image":"i:1"}]}}`,
		},
	}}
	for i := range n {
		name := fmt.Sprintf("web-%d", i)
		c.Children = append(c.Children, policytest.Object{
			APIVersion: "v1", Kind: "Pod", Namespace: "default", Name: name, UID: name, Labels: labels, Owner: "web",
			Fields: map[string]string{"spec.nodeName": `"n"`, "status.phase": `"Running"`},
		})
	}
	return c
}

// calls measures a gate or a controller.
func (b *bench) calls(m *engine.Module, p *abi.Policy, a *policytest.Asked, allocs string) error {
	i, err := m.Open(b.ctx, engine.OpenConfig{})
	if err != nil {
		return err
	}
	defer i.Close()
	run := &benchRun{i: i, policy: p}
	if err := run.asked(a); err != nil {
		return err
	}
	b.t.add(p.Name, "-", "-", run.perPod(), strconv.FormatInt(int64(run.fuel)/max(run.calls, 1), 10),
		fmt.Sprintf("%.1f%%", 100*run.share), allocs, mebibytes(run.memory))
	return nil
}

// asked makes the calls for a while, as a host makes them.
func (r *benchRun) asked(a *policytest.Asked) error {
	if _, err := r.call(engine.FuncOpen, a.Open, engine.OpenBudget); err != nil {
		return err
	}
	f := engine.FuncGate
	if a.Export == abi.FuncReconcile {
		f = engine.FuncReconcile
	}
	for until := time.Now().Add(benchTime); r.calls == 0 || time.Now().Before(until); {
		for _, in := range a.Inputs {
			budget := engine.AskBudget(a.Each, 0, len(in), r.i.MemoryBytes())
			res, err := r.call(f, in, budget)
			if err != nil {
				return err
			}
			r.calls, r.pods = r.calls+1, r.pods+int64(a.Each)
			r.podTime, r.fuel = r.podTime+res.Took, r.fuel+res.Fuel
			r.share = max(r.share, float64(res.Fuel)/float64(budget))
		}
		if len(a.Inputs) == 0 {
			return fmt.Errorf("the table of %s has no cases", a.Policy)
		}
	}
	r.memory = r.i.MemoryBytes()
	return nil
}
