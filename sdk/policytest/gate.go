package policytest

import (
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/guest"
)

// GatePod is a pod that waits on a readiness gate, with what the host saw.
// Times are nanoseconds since 1970.
type GatePod struct {
	Pod
	// ConditionType is the gate's; by default the policy's first.
	ConditionType string
	Phase         string
	Node, IP      string
	StartTime     int64
	// Conditions are the pod's, by type.
	Conditions   map[string]Condition
	Containers   []gate.Container
	Observations []Observation
}

// Condition is a condition's status, and since when.
type Condition struct {
	Status string
	Since  int64
}

// Observation is what the host saw for the gate.
type Observation struct {
	Name   string
	OK     bool
	Code   int32
	Detail string
	At     int64
}

// GateCase is one pod and what the gate should say of it.
type GateCase struct {
	Name string
	Now  int64
	Pod  GatePod
	// Want is True, False or Unknown.
	Want string
	// Reason and RequeueAfter are looked at where they are given.
	Reason       string
	RequeueAfter time.Duration
}

// GateTable is cases for a readiness gate.
type GateTable = Cases[GateCase]

// RunGate opens the gate and asks about each case.
func RunGate(t *testing.T, table GateTable) { t.Helper(); runCases(t, &table, AskedOfGate) }

func (c *GateCase) name() string { return c.Name }

func (c *GateCase) run(t *testing.T, in *guest.Instance, tape *tape) {
	t.Helper()
	input, err := encodeGate(c)
	if err != nil {
		t.Fatal(err)
	}
	out, err := in.Gate(input)
	if err != nil {
		t.Fatal(err)
	}
	tape.bytes(abi.FuncGate, input, out)
	list, err := abi.ReadReadiness(out, 1)
	if err != nil {
		t.Fatal(err)
	}
	got := list[0]
	if got.Status != c.Want {
		t.Errorf("Check = %s (%s: %s), want %s", got.Status, got.Reason, got.Message, c.Want)
	}
	if c.Reason != "" && got.Reason != c.Reason {
		t.Errorf("Check has the reason %s, want %s", got.Reason, c.Reason)
	}
	if after := time.Duration(got.RequeueAfterNanos); c.RequeueAfter != 0 && after != c.RequeueAfter {
		t.Errorf("Check asks again in %s, want %s", after, c.RequeueAfter)
	}
}

func encodeGate(c *GateCase) ([]byte, error) { return encodeGates([]GateCase{*c}, 1) }

// encodeGates has the cases' pods over and over until there are n, at the time
// of the last case.
func encodeGates(cases []GateCase, n int) ([]byte, error) {
	e := newEncoder()
	var pods []offset
	var now int64
	for i := range cases {
		now = max(now, cases[i].Now)
	}
	for i := 0; i < n && len(cases) > 0; i++ {
		pods = append(pods, e.gatePod(&cases[i%len(cases)].Pod))
	}
	list := e.CreateVectorOfTables(pods)
	fb.GateInputStart(e.Builder)
	fb.GateInputAddNow(e.Builder, now)
	fb.GateInputAddPods(e.Builder, list)
	e.Finish(fb.GateInputEnd(e.Builder))
	return e.FinishedBytes(), e.err
}

func (e *encoder) gatePod(p *GatePod) offset {
	b, pod := e.Builder, e.pod(&p.Pod, false)
	kind, phase, node, ip := e.CreateString(p.ConditionType), e.CreateString(p.Phase), e.CreateString(p.Node), e.CreateString(p.IP)
	conditions, containers, seen := e.podConditions(p.Conditions), e.containers(p.Containers), e.observations(p.Observations)
	fb.GatePodStart(b)
	fb.GatePodAddPod(b, pod)
	fb.GatePodAddConditionType(b, kind)
	fb.GatePodAddPhase(b, phase)
	fb.GatePodAddNodeName(b, node)
	fb.GatePodAddPodIp(b, ip)
	fb.GatePodAddStartTime(b, p.StartTime)
	fb.GatePodAddConditions(b, conditions)
	fb.GatePodAddContainers(b, containers)
	fb.GatePodAddObservations(b, seen)
	return fb.GatePodEnd(b)
}

func (e *encoder) podConditions(m map[string]Condition) offset {
	var items []offset
	for _, name := range slices.Sorted(maps.Keys(m)) {
		status, ok := fb.EnumValuesConditionStatus[m[name].Status]
		e.check(ok, "unknown status %q", m[name].Status)
		text := e.CreateString(name)
		fb.ConditionStart(e.Builder)
		fb.ConditionAddType(e.Builder, text)
		fb.ConditionAddStatus(e.Builder, status)
		fb.ConditionAddSince(e.Builder, m[name].Since)
		items = append(items, fb.ConditionEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) containers(list []gate.Container) offset {
	var items []offset
	for _, c := range list {
		name := e.CreateString(c.Name)
		fb.ContainerStart(e.Builder)
		fb.ContainerAddName(e.Builder, name)
		fb.ContainerAddReady(e.Builder, c.Ready)
		fb.ContainerAddStarted(e.Builder, c.Started)
		fb.ContainerAddInitContainer(e.Builder, c.Init)
		fb.ContainerAddRunningSince(e.Builder, c.RunningSince)
		fb.ContainerAddRestarts(e.Builder, c.Restarts)
		items = append(items, fb.ContainerEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}

func (e *encoder) observations(list []Observation) offset {
	var items []offset
	for _, o := range list {
		name, detail := e.CreateString(o.Name), e.CreateString(o.Detail)
		fb.ObservationStart(e.Builder)
		fb.ObservationAddName(e.Builder, name)
		fb.ObservationAddOk(e.Builder, o.OK)
		fb.ObservationAddCode(e.Builder, o.Code)
		fb.ObservationAddDetail(e.Builder, detail)
		fb.ObservationAddAt(e.Builder, o.At)
		items = append(items, fb.ObservationEnd(e.Builder))
	}
	return e.CreateVectorOfTables(items)
}
