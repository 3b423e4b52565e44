// Package policytest holds policies in plain Go, with which the engine is
// tested without any sandbox. They follow the same contract as guests do: they
// believe nothing but the log and the pod of the cycle.
package policytest

import (
	"context"
	"crypto/sha256"
	"errors"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// Native is a policy of functions. It is predicate, priority and foreseer.
type Native struct {
	Is      framework.Info
	Reasons *framework.Reasons
	// Answer says what is asked of a pod; nil asks all rows.
	Answer func(log snapshot.Log, pod *snapshot.Pod) abi.Ask
	// Judge returns why a row is refused, empty where it is admitted.
	Judge func(log snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) string
	// Rate returns the raw score of a row.
	Rate func(log snapshot.Log, pod *snapshot.Pod, row *snapshot.Row) int64
	// On says what the answers about a pod depend on so far; nil for all that is read.
	On func(pod *snapshot.Pod) *abi.Depends
	// Lasting are reasons that removing pods does not help.
	Lasting bool
	// Fail, if not nil, may make a call fail.
	Fail func() error

	// Calls and Rows count what was asked.
	Calls, Rows int

	log snapshot.Log
	pod *snapshot.Pod
	// ids remembers reasons, as a sandbox's bridge does.
	ids map[string]framework.ReasonID
}

// Named gives a policy its name, and an identity that follows from it.
func Named(name string, reads abi.Groups, scope abi.Scope) framework.Info {
	return framework.Info{Name: name, Reads: reads, SkipDependsOn: reads, Scope: scope, Identity: sha256.Sum256([]byte(name))}
}

// Info implements profile.Policy.
func (n *Native) Info() *framework.Info { return &n.Is }

// Pod implements profile.Policy.
func (n *Native) Pod(_ context.Context, log snapshot.Log, pod *snapshot.Pod, _ int64) (framework.Answer, error) {
	n.Calls++
	n.log, n.pod = log, pod
	if err := n.failure(); err != nil {
		return framework.Answer{}, err
	}
	if n.Answer == nil {
		return framework.Answer{}, nil
	}
	ask := n.Answer(log, pod)
	answer := framework.Answer{Ask: ask}
	if ask == abi.AskRefuse {
		answer.Reason = n.reason("pod is refused")
	}
	return answer, nil
}

// Filter implements profile.Predicate.
func (n *Native) Filter(_ context.Context, rows []int32, verdicts []framework.ReasonID) error {
	n.Calls++
	n.Rows += len(rows)
	if err := n.failure(); err != nil {
		return err
	}
	for i, slot := range rows {
		verdicts[i] = n.verdict(n.log.Row(slot))
	}
	return nil
}

// Score implements profile.Priority.
func (n *Native) Score(_ context.Context, rows []int32, raw []int64) error {
	n.Calls++
	n.Rows += len(rows)
	if err := n.failure(); err != nil {
		return err
	}
	for i, slot := range rows {
		raw[i] = n.Rate(n.log, n.pod, n.log.Row(slot))
	}
	return nil
}

// Depends implements framework.Depender.
func (n *Native) Depends(context.Context) (*abi.Depends, error) {
	if n.On == nil {
		return nil, nil
	}
	return n.On(n.pod), nil
}

// WhatIf implements profile.Foreseer.
func (n *Native) WhatIf(_ context.Context, questions []framework.WhatIf, verdicts []framework.ReasonID) error {
	n.Calls++
	if err := n.failure(); err != nil {
		return err
	}
	for i, q := range questions {
		log := &changed{Log: n.log, rows: map[int32]*snapshot.Row{}}
		for _, d := range q.Deltas {
			if d.Kind == snapshot.RowUpsert {
				log.rows[d.Slot] = d.Row
			}
		}
		verdicts[i] = 0
		if why := n.Judge(log, n.pod, log.Row(q.Row)); why != "" {
			verdicts[i] = n.reason(why)
		}
	}
	return nil
}

// changed is a log with some rows replaced.
type changed struct {
	snapshot.Log
	rows map[int32]*snapshot.Row
}

func (c *changed) Row(slot int32) *snapshot.Row {
	if row := c.rows[slot]; row != nil {
		return row
	}
	return c.Log.Row(slot)
}

func (n *Native) verdict(row *snapshot.Row) framework.ReasonID {
	if why := n.Judge(n.log, n.pod, row); why != "" {
		return n.reason(why)
	}
	return 0
}

func (n *Native) reason(why string) framework.ReasonID {
	if id, ok := n.ids[why]; ok {
		return id
	}
	id := n.Reasons.Intern(framework.Reason{Policy: n.Is.Name, Text: why, Resolvable: !n.Lasting})
	if n.ids == nil {
		n.ids = map[string]framework.ReasonID{}
	}
	n.ids[why] = id
	return id
}

func (n *Native) failure() error {
	if n.Fail == nil {
		return nil
	}
	return n.Fail()
}

// ErrBroken is a failure for tests.
var ErrBroken = errors.New("unreachable executed")
