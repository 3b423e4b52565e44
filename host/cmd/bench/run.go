package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// result is what one workload gave.
type result struct {
	workload
	perSecond, p50, p99 float64
	// kubeScheduler is its rate, measured between two runs of Berth; perSecond is
	// then the mean of these. 0 where it was not.
	kubeScheduler float64
	heap          uint64
	stored        int64
	// cpuMicros is what one measured pod cost in CPU time, user and system, of
	// the whole process: API, store, scheduler, guests and clients.
	cpuMicros float64
	// allocs are what one measured pod allocated, clients included.
	allocs float64
	// joined is how long the nodes took that came meanwhile.
	joined time.Duration
}

// measureWorkloads runs those workloads that are wanted.
func measureWorkloads(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "workload", Title: "Pods per second end to end: clients over TLS, every binding synced and seen by a watcher, every policy a guest"}
	for _, w := range workloads {
		if !o.workloads.MatchString(w.name) {
			continue
		}
		w = w.scaled(o.nodes)
		say("%s: %d nodes, %d pods, then %d measured", w.name, w.nodes, w.init, w.measured)
		res, err := runBeside(ctx, w, o)
		if err != nil {
			return []table{t}, fmt.Errorf("%s: %w", w.name, err)
		}
		if note := res.note(); note != "" && !slices.Contains(t.Notes, note) {
			t.Notes = append(t.Notes, note)
		}
		t.Rows = append(t.Rows, res.rows()...)
	}
	return []table{t}, nil
}

// runBeside measures a workload, and where kube-scheduler can be measured, that
// too, between two runs of Berth: a machine's pace differs from hour to hour.
func runBeside(ctx context.Context, w workload, o *options) (result, error) {
	before, err := run(ctx, w, o.clients, profiled(o.cpuProfile))
	if err != nil {
		return before, err
	}
	if before.kubeScheduler, err = measuredBeside(ctx, w, o); err != nil || before.kubeScheduler == 0 {
		return before, err
	}
	after, err := run(ctx, w, o.clients, profiled(o.cpuProfile))
	after.kubeScheduler = before.kubeScheduler
	after.perSecond = (before.perSecond + after.perSecond) / 2
	after.cpuMicros = (before.cpuMicros + after.cpuMicros) / 2
	return after, err
}

// note says why kube-scheduler's rate is missing; empty where it is not.
func (r *result) note() string {
	switch {
	case r.kubeScheduler > 0:
		return ""
	case r.joining > 0:
		return r.name + " is not run with kube-scheduler: no case of scheduler_perf has nodes join, and at its rate for 5,000 nodes these pods would take it minutes."
	default:
		return "kube-scheduler was not measured: `.ci/tools/others.sh scheduler_perf` builds what measures it."
	}
}

// rows are what the workload gave, and in one of its own how long nodes took to join.
func (r *result) rows() []row {
	rows := []row{r.row()}
	if r.joining > 0 {
		name := fmt.Sprintf("%s: until %s more nodes had joined", r.name, number(float64(r.joining)))
		rows = append(rows, row{Name: name}.with("joining", r.joined.Seconds(), "s").most(joinWithin.Seconds()))
	}
	return rows
}

func (r *result) row() row {
	row := row{Name: r.name}.
		with("nodes", float64(r.nodes), "").with("init", float64(r.init), "").with("measured", float64(r.measured), "").
		with("pods/s", r.perSecond, "").with("p50", r.p50, "").with("p99", r.p99, "").
		with("CPU/pod", r.cpuMicros, "µs").with("allocs/pod", r.allocs, "").
		with("heap", mib(r.heap), "MiB").with("store", mib(r.stored), "MiB")
	if r.kubeScheduler > 0 {
		row = row.with("kube-scheduler", r.kubeScheduler, "").with("ratio", r.perSecond/r.kubeScheduler, "×")
	}
	switch {
	case r.aimRatio > 0 && r.kubeScheduler > 0:
		return row.judged("ratio", atLeast, r.aimRatio)
	case r.aimRate > 0:
		return row.judged("pods/s", atLeast, r.aimRate)
	}
	return row
}

// run measures one workload on a host of its own.
func run(ctx context.Context, w workload, clients int, measuring func(func() error) error) (result, error) {
	res := result{workload: w}
	err := onRig(ctx, func(r *rig) error {
		if err := r.prepare(ctx, w, clients); err != nil {
			return fmt.Errorf("prepare: %w", err)
		}
		return measuring(func() error { return r.measure(ctx, w, clients, &res) })
	})
	return res, err
}

func (r *rig) prepare(ctx context.Context, w workload, clients int) error {
	for _, name := range []string{first, second} {
		ns := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		if _, err := r.client.CoreV1().Namespaces().Create(ctx, ns, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	class := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: urgent}, Value: 10}
	if _, err := r.client.SchedulingV1().PriorityClasses().Create(ctx, class, metav1.CreateOptions{}); err != nil {
		return err
	}
	err := each(ctx, clients, w.nodes, func(ctx context.Context, i int) error {
		_, err := r.client.CoreV1().Nodes().Create(ctx, w.node(i), metav1.CreateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if w.init == 0 {
		return nil
	}
	bound, err := r.watch(ctx, func(*v1.Pod) bool { return true })
	if err != nil {
		return err
	}
	defer bound.stop()
	if err := r.create(ctx, clients, w.init, w.initPod); err != nil {
		return err
	}
	return bound.wait(ctx, w.init)
}

// create makes n pods by several clients at once. They send the same pod again
// and again, as scheduler_perf's do, read the answers, and do not decode them:
// nothing in there is of use to them.
func (r *rig) create(ctx context.Context, clients, n int, pod func() *v1.Pod) error {
	pods := sync.Pool{New: func() any { return pod() }}
	return each(ctx, clients, n, func(ctx context.Context, _ int) error {
		p := pods.Get().(*v1.Pod)
		defer pods.Put(p) // to encode it changes it for a moment
		return r.client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Body(p).Do(ctx).Error()
	})
}

// createMeasured creates the pods that are measured.
func (r *rig) createMeasured(ctx context.Context, clients int, w workload) error {
	if w.each == nil {
		return r.create(ctx, clients, w.measured, w.pod)
	}
	return each(ctx, clients, w.measured, func(ctx context.Context, i int) error {
		p := w.each(i)
		return r.client.CoreV1().RESTClient().Post().Namespace(p.Namespace).Resource("pods").Body(p).Do(ctx).Error()
	})
}

func each(ctx context.Context, workers, n int, do func(context.Context, int) error) error {
	group, ctx := errgroup.WithContext(ctx)
	var next atomic.Int64
	for range workers {
		group.Go(func() error {
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := do(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	return group.Wait()
}

// seen counts the pods that a watcher saw bound.
type seen struct {
	count  atomic.Int64
	ended  chan error
	cancel context.CancelFunc
}

func (s *seen) stop() { s.cancel() }

// watch follows bound pods from now on, and counts those that match.
func (r *rig) watch(ctx context.Context, match func(*v1.Pod) bool) (*seen, error) {
	list, err := r.client.CoreV1().Pods("").List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w, err := r.client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion, FieldSelector: "spec.nodeName!="})
	if err != nil {
		cancel()
		return nil, err
	}
	s := &seen{ended: make(chan error, 1), cancel: cancel}
	go func() {
		defer w.Stop()
		counted := map[string]bool{}
		for ev := range w.ResultChan() {
			pod, ok := ev.Object.(*v1.Pod)
			if !ok {
				s.ended <- fmt.Errorf("watch: %+v", ev.Object)
				return
			}
			if pod.Spec.NodeName != "" && !counted[string(pod.UID)] && match(pod) {
				counted[string(pod.UID)] = true
				s.count.Add(1)
			}
		}
		s.ended <- fmt.Errorf("the watch ended early")
	}()
	return s, nil
}

func (s *seen) wait(ctx context.Context, n int) error {
	ticker := time.NewTicker(5 * time.Millisecond)
	defer ticker.Stop()
	last, since := int64(0), time.Now()
	for {
		have := s.count.Load()
		if have >= int64(n) {
			return nil
		}
		if have != last {
			last, since = have, time.Now()
		}
		if time.Since(since) > time.Minute {
			return fmt.Errorf("%d of %d pods are bound, and nothing has happened for a minute", have, n)
		}
		select {
		case <-ticker.C:
		case err := <-s.ended:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// measure counts the measured pods from the first one's creation to the last
// one's binding.
func (r *rig) measure(ctx context.Context, w workload, clients int, res *result) error {
	isMeasured := func(p *v1.Pod) bool { return w.beside == nil || p.Namespace == second }
	bound, err := r.watch(ctx, isMeasured)
	if err != nil {
		return err
	}
	defer bound.stop()
	runtime.GC()
	sampling, cancel := context.WithCancel(ctx)
	defer cancel()
	samples := make(chan []float64, 1)
	go func() { samples <- sample(sampling, bound) }()
	began, before := time.Now(), use()
	if w.beside != nil {
		go r.beside(sampling, w.beside)
	}
	joined := r.joins(sampling, w)
	if err := r.createMeasured(ctx, clients, w); err != nil {
		return err
	}
	if err := bound.wait(ctx, w.measured); err != nil {
		return err
	}
	seconds := time.Since(began).Seconds()
	after := use()
	joining := <-joined
	cancel()
	if joining.err != nil {
		return fmt.Errorf("nodes join: %w", joining.err)
	}
	res.joined = joining.took
	res.cpuMicros = micros(after.cpu-before.cpu) / float64(w.measured)
	res.allocs = float64(after.allocs-before.allocs) / float64(w.measured)
	res.perSecond = float64(w.measured) / seconds
	res.p50, res.p99 = spreadOf(<-samples, res.perSecond)
	var mem runtime.MemStats
	runtime.ReadMemStats(&mem)
	res.heap, res.stored = mem.HeapAlloc, sizeOf(filepath.Join(r.dir, "store"))
	return nil
}

func (r *rig) beside(ctx context.Context, pod func() *v1.Pod) {
	ticker := time.NewTicker(200 * time.Millisecond)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			p := pod()
			if _, err := r.client.CoreV1().Pods(p.Namespace).Create(ctx, p, metav1.CreateOptions{}); err != nil && ctx.Err() == nil {
				fmt.Fprintln(os.Stderr, "bench:", err)
			}
		case <-ctx.Done():
			return
		}
	}
}

// sample takes the throughput of each second.
func sample(ctx context.Context, s *seen) []float64 {
	var all []float64
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	last := s.count.Load()
	for {
		select {
		case <-ticker.C:
			now := s.count.Load()
			all = append(all, float64(now-last))
			last = now
		case <-ctx.Done():
			return all
		}
	}
}

// spreadOf is the median and the 99th percentile of the samples; a run of less
// than a second has but its average.
func spreadOf(samples []float64, average float64) (p50, p99 float64) {
	if len(samples) == 0 {
		return average, average
	}
	slices.Sort(samples)
	return samples[len(samples)/2], samples[(len(samples)*99)/100]
}

func sizeOf(dir string) int64 {
	var sum int64
	_ = filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil
		}
		if info, err := d.Info(); err == nil {
			sum += info.Size()
		}
		return nil
	})
	return sum
}
