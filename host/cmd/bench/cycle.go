package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"sync/atomic"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// size is a cluster in which decisions are measured: without pods, then with
// some placed, each time with replicas of one class and with pods that all differ.
type size struct {
	nodes, placed   int
	same, different int
}

var sizes = []size{
	{nodes: 100, placed: 1_000, same: 2_000, different: 2_000},
	{nodes: 1_000, placed: 10_000, same: 5_000, different: 3_000},
	{nodes: 5_000, placed: 50_000, same: 10_000, different: 3_000},
	{nodes: 20_000, placed: 100_000, same: 10_000, different: 2_000},
	{nodes: 100_000, placed: 100_000, same: 5_000, different: 1_000},
}

// aimInProcess is in pods/s, for one class at 5,000 nodes.
const aimInProcess, aimNodes = 24_000, 5_000

// garbagePercent is what a host sets for itself.
const garbagePercent = 400

// measureCycles measures decisions alone: no API, no binding; all nodes are
// evaluated by the guests of the default profile.
func measureCycles(ctx context.Context, o *options) ([]table, error) {
	defer debug.SetGCPercent(debug.SetGCPercent(garbagePercent))
	dir, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	t := table{Name: "decisions", Title: "Decisions in process, without API and binding; all nodes evaluated, every policy of the default profile a guest"}
	for _, s := range sizes {
		if o.nodes != 0 && o.nodes != s.nodes {
			continue
		}
		rows, err := s.measure(ctx, dir, profiled(o.cpuProfile))
		t.Rows = append(t.Rows, rows...)
		if err != nil {
			return []table{t}, fmt.Errorf("%d nodes: %w", s.nodes, err)
		}
		settle()
	}
	binds, err := measureBinds(ctx)
	return []table{t, binds}, err
}

func (s size) measure(ctx context.Context, dir string, profiled func(func() error) error) (rows []row, err error) {
	say("decisions at %d nodes", s.nodes)
	d, err := newDesk(ctx, dir)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, d.stop()) }()
	if err := d.join(ctx, s.nodes); err != nil {
		return nil, err
	}
	for _, placed := range []int{0, s.placed} {
		if placed > 0 {
			if err := d.place(ctx, s.nodes, placed); err != nil {
				return rows, err
			}
		}
		for _, class := range []struct {
			name string
			pod  func(int) *v1.Pod
			n    int
		}{{"one class", replica, s.same}, {"all different", different, s.different}} {
			// None of the pods came by before, or its answers may be remembered.
			pod := func(i int) *v1.Pod { return class.pod(placed + i) }
			r, err := d.decide(ctx, pod, class.n, profiled)
			if err != nil {
				return rows, fmt.Errorf("%d placed, %s: %w", placed, class.name, err)
			}
			r.Name = fmt.Sprintf("%s nodes, %s placed, %s", number(float64(s.nodes)), number(float64(placed)), class.name)
			if s.nodes == aimNodes && class.n == s.same {
				r = r.least(aimInProcess)
			}
			rows = append(rows, r)
		}
	}
	return rows, nil
}

// join tells of n nodes.
func (d *desk) join(ctx context.Context, n int) error {
	w := workload{zones: []string{"zone-1", "zone-2", "zone-3"}}
	events := make([]schedule.Event, n)
	for i := range events {
		node := w.node(i)
		d.nodes[node.Name] = node
		events[i] = schedule.Event{Resource: "nodes", Object: node}
	}
	return d.tell(ctx, events)
}

func named(kind string, i int) *v1.Pod {
	p := plain()
	p.Name = fmt.Sprint(kind, "-", i)
	p.UID = types.UID(p.Name)
	p.Spec.SchedulerName = v1.DefaultSchedulerName
	return p
}

// replica is a pod that differs from the others in its name alone.
func replica(i int) *v1.Pod { return named("replica", i) }

// different is a pod like no other.
func different(i int) *v1.Pod {
	p := named("different", i)
	p.Labels = map[string]string{"app": p.Name}
	use := amounts("100m", "500Mi")
	use[v1.ResourceMemory] = *resource.NewQuantity(500<<20+int64(i)<<12, resource.BinarySI)
	p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: use, Limits: use}
	return p
}

// desk is both sides of a scheduler without an API: what it is told, and who
// takes its binds, which all succeed at once.
type desk struct {
	told      chan []schedule.Event
	nodes     map[string]*v1.Node
	scheduler *schedule.Scheduler
	bound     atomic.Int64
	stop      func() error
	failed    map[string]bool // policies; belongs to the scheduler's goroutine
}

func newDesk(ctx context.Context, dir string) (*desk, error) {
	ctx, cancel := context.WithCancel(ctx)
	loader, closeGuests, err := openGuests(ctx, dir)
	if err != nil {
		cancel()
		return nil, err
	}
	d := &desk{told: make(chan []schedule.Event, 64), nodes: map[string]*v1.Node{}, failed: map[string]bool{}}
	d.scheduler, err = schedule.New(schedule.Config{
		Source: d, Binder: d, Set: loader.Scheduling, Reasons: loader.Reasons, Rest: loader.Rest, Clock: time.Now, Seed: 1,
		OnDivergence: func(x schedule.Divergence) { say("a policy does not repeat its answers: %+v", x) },
		Failed:       d.fail,
	})
	if err != nil {
		cancel()
		return nil, errors.Join(err, closeGuests())
	}
	ended := make(chan error, 1)
	go func() { ended <- d.scheduler.Run(ctx) }()
	d.stop = func() error { cancel(); return errors.Join(<-ended, closeGuests()) }
	return d, nil
}

// fail tells of a policy's first failure.
func (d *desk) fail(policy string, err error) {
	if !d.failed[policy] {
		d.failed[policy] = true
		say("policy %s failed: %v", policy, err)
	}
}

// Next implements schedule.Source.
func (d *desk) Next(ctx context.Context) ([]schedule.Event, bool, error) {
	select {
	case events := <-d.told:
		return events, true, nil
	case <-ctx.Done():
		return nil, false, ctx.Err()
	}
}

// Bind implements schedule.Binder. Pods get their node's zone, as when they are stored.
func (d *desk) Bind(ctx context.Context, list []schedule.Binding) []error {
	events := make([]schedule.Event, len(list))
	for i, b := range list {
		pod := *b.Pod
		pod.Spec.NodeName = b.Node
		pod.Labels = snapshot.LabelsOn(d.nodes[b.Node], pod.Labels)
		events[i] = schedule.Event{Resource: "pods", Object: &pod}
	}
	errs := make([]error, len(list))
	if err := d.tell(ctx, events); err != nil {
		for i := range errs {
			errs[i] = err
		}
		return errs
	}
	d.bound.Add(int64(len(list)))
	return errs
}

// Condition implements schedule.Binder.
func (d *desk) Condition(_ context.Context, list []schedule.Condition) []error {
	for _, c := range list {
		say("pod %s is not placed: %s", c.Pod.Name, c.Message)
	}
	return make([]error, len(list))
}

// Evict implements schedule.Binder.
func (d *desk) Evict(_ context.Context, list []schedule.Eviction) []error {
	return make([]error, len(list))
}

// Provision implements schedule.Binder.
func (d *desk) Provision(_ context.Context, list []schedule.Provision) []error {
	return make([]error, len(list))
}

func (d *desk) tell(ctx context.Context, events []schedule.Event) error {
	select {
	case d.told <- events:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// eventsAtOnce is how many changes a watch tells in one piece.
const eventsAtOnce = 256

// place tells of pods that run already, spread over the nodes.
func (d *desk) place(ctx context.Context, nodes, n int) error {
	var w workload
	for from := 0; from < n; from += eventsAtOnce {
		var events []schedule.Event
		for i := from; i < min(from+eventsAtOnce, n); i++ {
			pod := named("placed", i)
			pod.Labels = map[string]string{"app": fmt.Sprint("app-", i%50)}
			pod.Spec.NodeName = w.node(i % nodes).Name
			events = append(events, schedule.Event{Resource: "pods", Object: pod})
		}
		if err := d.tell(ctx, events); err != nil {
			return err
		}
	}
	return nil
}

// decide has n pods decided and removes them again. One pod before them finds
// the guests as cold as what came before has left them.
func (d *desk) decide(ctx context.Context, pod func(int) *v1.Pod, n int, profiled func(func() error) error) (row, error) {
	if _, err := d.submit(ctx, pod, n, n+1); err != nil {
		return row{}, err
	}
	settle()
	before, began := use(), time.Now()
	if err := profiled(func() error { return d.all(ctx, pod, n) }); err != nil {
		return row{}, err
	}
	took, after := time.Since(began), use()
	var decisions times
	for _, t := range d.scheduler.Traces().Last(n) {
		decisions = append(decisions, t.Took)
	}
	settle()
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	r := row{}.
		with("pods/s", float64(n)/took.Seconds(), "").
		with("p50", micros(decisions.at(0.5)), "µs").with("p99", micros(decisions.at(0.99)), "µs").
		with("CPU/pod", micros(after.cpu-before.cpu)/float64(n), "µs").
		with("heap", mib(mem.HeapAlloc), "MiB").with("guests", mib(engine.GuestBytes()), "MiB")
	return r, d.remove(ctx, pod, n+1)
}

func (d *desk) all(ctx context.Context, pod func(int) *v1.Pod, n int) error {
	_, err := d.submit(ctx, pod, 0, n)
	return err
}

// timeout is for how long pods may wait.
const timeout = 2 * time.Minute

// submit tells of the pods from … to and waits until all are bound.
func (d *desk) submit(ctx context.Context, pod func(int) *v1.Pod, from, to int) (time.Duration, error) {
	began := time.Now()
	want := d.bound.Load() + int64(to-from)
	for at := from; at < to; at += eventsAtOnce {
		var events []schedule.Event
		for i := at; i < min(at+eventsAtOnce, to); i++ {
			events = append(events, schedule.Event{Resource: "pods", Object: pod(i)})
		}
		if err := d.tell(ctx, events); err != nil {
			return 0, err
		}
	}
	ticker := time.NewTicker(200 * time.Microsecond)
	defer ticker.Stop()
	for d.bound.Load() < want {
		if time.Since(began) > timeout {
			return 0, fmt.Errorf("%d pods are not placed after %v", want-d.bound.Load(), timeout)
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	return time.Since(began), nil
}

func (d *desk) remove(ctx context.Context, pod func(int) *v1.Pod, n int) error {
	var events []schedule.Event
	for i := range n {
		events = append(events, schedule.Event{Resource: "pods", Deleted: true, Object: pod(i)})
	}
	return d.tell(ctx, events)
}
