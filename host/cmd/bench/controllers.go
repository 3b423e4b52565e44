package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/nodeagent/simulate"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// Sizes and aims.
const (
	manyNodes    = 1_000
	maxNodes     = 5_000
	manyServices = 5_000
	newPods      = 200
	restFor      = 10 * time.Second
	// playFor bounds one play: beside it, the other side is told to have taken
	// longer.
	playFor = 5 * time.Minute

	aimDeployment = 4    // s
	aimRollout    = 1.5  // s
	aimJob        = 10   // s
	aimParallel   = 3    // s
	aimOrdered    = 4    // s
	aimDaemons    = 2.5  // s
	aimEndpoint   = 15   // ms
	aimGuests     = 64   // MiB
	throttledPods = 1000 // by a controller manager with its default flags
)

// side is who keeps workloads: Berth's guests, or kube-controller-manager with
// those flags in their place.
type side struct {
	name  string
	flags []string
}

var sides = []side{
	{name: "Berth"},
	{"kube-controller-manager, unthrottled", []string{
		"--kube-api-qps=100000", "--kube-api-burst=100000", "--concurrent-deployment-syncs=50", "--concurrent-replicaset-syncs=50",
		"--concurrent-statefulset-syncs=50", "--concurrent-job-syncs=50", "--concurrent-service-endpoint-syncs=50",
	}},
	{"kube-controller-manager, default flags", []string{}},
}

// play is something that controllers do, with how many nodes and objects, and
// the aim for Berth in the row's unit.
type play struct {
	name     string
	nodes, n int
	unit     string
	aim      float64
	// run does it in a namespace of its own with so many objects.
	run func(ctx context.Context, s *cast, ns string, n int) (float64, error)
	// throttled says that it is played with default flags, too.
	throttled bool
}

var plays = []play{
	{"Deployment, 0 → 10,000 ready", manyNodes, 10_000, "s", aimDeployment, playDeployment, false},
	{"Deployment, 0 → 1,000 ready", manyNodes, throttledPods, "s", 0, playDeployment, true},
	{"Deployment, rolling update of 1,000", manyNodes, 1_000, "s", aimRollout, playRollout, true},
	{"Job of 10,000 indexes, 1,000 at once", manyNodes, 10_000, "s", aimJob, playJob, false},
	{"StatefulSet, 0 → 5,000 in parallel", manyNodes, 5_000, "s", aimParallel, playParallel, false},
	{"StatefulSet, 0 → 200 in order", manyNodes, 200, "s", aimOrdered, playOrdered, true},
	{"DaemonSet onto 5,000 nodes", maxNodes, maxNodes, "s", aimDaemons, playDaemons, false},
	{"a pod ready → in its EndpointSlice, p99 at 5,000 services", manyNodes, manyServices, "ms", aimEndpoint, playEndpoints, false},
	{"CPU a pod, 20,000 in 8 Deployments onto 5,000 nodes", maxNodes, 20_000, "ms", 0, playLarge, false},
	{"CPU a pod, 20,000 made by clients onto 5,000 nodes", maxNodes, 20_000, "ms", 0, playBare, false},
	{"CPU for 10,000 Deployments at rest", manyNodes, 10_000, "% of a core", 0, playIdle, false},
}

// measureControllers plays each for each side, on a host of its own with
// simulated nodes, which take the same for all.
func measureControllers(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "controllers", Title: "Workloads on simulated nodes: from the request until the parent's status says so, every write synced"}
	manager, err := exec.LookPath("kube-controller-manager")
	if err != nil {
		say("kube-controller-manager is left out: %v", err)
		t.Notes = append(t.Notes, "kube-controller-manager was not measured: `.ci/tools/others.sh kube-controller-manager` builds it.")
	} else {
		t.Notes = append(t.Notes, "kube-controller-manager runs its controllers on Berth's host in place of Berth's own: API, scheduler, garbage collector and nodes are the same for all.")
	}
	guests := 0.0
	for i := range plays {
		p := &plays[i]
		if !o.workloads.MatchString(p.name) {
			continue
		}
		r := row{Name: p.name}
		for _, s := range sides {
			if s.flags != nil && (manager == "" || len(s.flags) == 0 && !p.throttled) {
				continue
			}
			say("%s: %s", p.name, s.name)
			figure, memory, err := p.measure(ctx, &s, manager, profiled(o.cpuProfile))
			if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil && s.flags != nil {
				t.Notes = append(t.Notes, fmt.Sprintf("%s: %s was given up after %s.", p.name, s.name, playFor))
				continue
			}
			if err != nil {
				return []table{t}, fmt.Errorf("%s: %s: %w", p.name, s.name, err)
			}
			r = r.with(s.name, figure, p.unit)
			if s.flags == nil {
				guests = max(guests, memory)
			}
			settle()
		}
		if p.aim > 0 {
			r = r.most(p.aim)
		}
		t.Rows = append(t.Rows, r)
	}
	t.Rows = append(t.Rows, one("memory of all controllers' guests, the most of any play", guests, "MiB").most(aimGuests))
	return []table{t}, nil
}

// cast is a host with simulated nodes and whoever keeps its workloads.
type cast struct {
	*rig
	manager *os.Process
}

// measure plays once with one object, which loads what is loaded late, and once
// with all.
func (p *play) measure(ctx context.Context, s *side, manager string, measuring func(func() error) error) (figure, memory float64, err error) {
	ctx, cancel := context.WithTimeout(ctx, playFor)
	defer cancel()
	err = onRig(ctx, func(r *rig) error {
		group, ctx := errgroup.WithContext(ctx)
		ctx, end := context.WithCancel(ctx)
		c := &cast{rig: r}
		registered := make(chan struct{})
		group.Go(func() error {
			return simulate.Run(ctx, simulate.Config{
				REST: r.config, N: p.nodes, Shape: simulate.Shape{Zones: 3}, Registered: func() { close(registered) },
				Log: slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelError})),
			})
		})
		group.Go(func() error {
			defer end()
			select {
			case <-registered:
			case <-ctx.Done():
				return ctx.Err()
			}
			if s.flags != nil {
				if err := c.replace(ctx, group, manager, s.flags); err != nil {
					return err
				}
			}
			if _, err := c.in(ctx, "first", 1, p.run); err != nil {
				return fmt.Errorf("with one: %w", err)
			}
			err := measuring(func() (err error) {
				figure, err = c.in(ctx, "second", p.n, p.run)
				return err
			})
			if err != nil {
				return err
			}
			memory, err = c.guests(ctx)
			return err
		})
		return group.Wait()
	})
	return figure, memory, err
}

// in runs a play in a new namespace.
func (c *cast) in(ctx context.Context, ns string, n int, run func(context.Context, *cast, string, int) (float64, error)) (float64, error) {
	if _, err := c.client.CoreV1().Namespaces().Create(ctx, &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: ns}}, metav1.CreateOptions{}); err != nil {
		return 0, err
	}
	return run(ctx, c, ns, n)
}

// shared are the controllers that both sides have, by Berth's names for their
// Policies and kube-controller-manager's.
var shared = map[string]string{
	"Deployment": "deployment-controller", "ReplicaSet": "replicaset-controller", "StatefulSet": "statefulset-controller",
	"DaemonSet": "daemonset-controller", "Job": "job-controller", "EndpointSlice": "endpointslice-controller",
	"Endpoints": "endpoints-controller",
}

// replace ends Berth's controllers and runs kube-controller-manager for them.
func (c *cast) replace(ctx context.Context, group *errgroup.Group, manager string, flags []string) error {
	w, err := c.web()
	if err != nil {
		return err
	}
	defer closeWebs([]*web{w})
	var theirs []string
	for policy, controller := range shared {
		if _, err := w.do(ctx, "DELETE", policyAPI+"/policies/"+policy, "", asJSON, nil); err != nil {
			return err
		}
		theirs = append(theirs, controller)
	}
	slices.Sort(theirs)
	kubeconfig, err := filepath.Abs(c.kubeconfig)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, manager, append([]string{
		"--kubeconfig=" + kubeconfig, "--leader-elect=false", "--secure-port=0", "--controllers=" + strings.Join(theirs, ","),
	}, flags...)...)
	log, err := os.Create(filepath.Join(c.dir, "kube-controller-manager.log"))
	if err != nil {
		return err
	}
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		return errors.Join(err, log.Close())
	}
	c.manager = cmd.Process
	group.Go(func() error {
		err := cmd.Wait()
		_ = log.Close()
		if ctx.Err() != nil {
			return nil
		}
		said, _ := os.ReadFile(log.Name())
		return fmt.Errorf("kube-controller-manager ended: %w: %s", err, said[max(0, len(said)-1000):])
	})
	return nil
}

// guests is how much memory the guests of Berth's controllers have, in MiB.
func (c *cast) guests(ctx context.Context) (float64, error) {
	w, err := c.web()
	if err != nil {
		return 0, err
	}
	defer closeWebs([]*web{w})
	var all []sandbox.Figures
	if err := w.doJSON(ctx, "GET", berthapi.FiguresPath, "", nil, &all); err != nil {
		return 0, err
	}
	sum := uint64(0)
	for _, f := range all {
		if f.Kind == "controller" {
			sum += f.Memory
		}
	}
	return mib(sum), nil
}

// until asks again and again whether something is so.
func until(ctx context.Context, is func() (bool, error)) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for {
		if ok, err := is(); ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// app are the labels of what a play makes.
func app(name string) map[string]string { return map[string]string{"app": name} }

func template(name string) v1.PodTemplateSpec {
	t := v1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: app(name)}}
	t.Spec.Containers = []v1.Container{{Name: "c", Image: "registry.example/app:1"}}
	return t
}

func playEndpoints(ctx context.Context, c *cast, ns string, n int) (float64, error) {
	name := func(i int) string { return fmt.Sprintf("s%d", i) }
	pod := func(i, which int) *v1.Pod {
		t := template(name(i))
		return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("p%d-%d", i, which), Labels: t.Labels}, Spec: t.Spec}
	}
	err := each(ctx, 32, n, func(ctx context.Context, i int) error {
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: name(i)}, Spec: v1.ServiceSpec{Selector: app(name(i)), Ports: []v1.ServicePort{{Port: 80}}}}
		_, err := c.client.CoreV1().Services(ns).Create(ctx, s, metav1.CreateOptions{})
		if err == nil {
			_, err = c.client.CoreV1().Pods(ns).Create(ctx, pod(i, 0), metav1.CreateOptions{})
		}
		return err
	})
	if err != nil {
		return 0, err
	}
	err = until(ctx, func() (bool, error) {
		list, err := c.client.DiscoveryV1().EndpointSlices(ns).List(ctx, metav1.ListOptions{ResourceVersion: "0"})
		if err != nil {
			return false, err
		}
		have := 0
		for i := range list.Items {
			have += len(list.Items[i].Endpoints)
		}
		return have >= n, pause(ctx, 200*time.Millisecond)
	})
	if err != nil {
		return 0, err
	}
	return c.endpointTimes(ctx, ns, n, pod)
}

// endpointTimes makes pods one after the other, and compares when a watcher sees
// each ready and when it sees it in a slice.
func (c *cast) endpointTimes(ctx context.Context, ns string, n int, pod func(i, which int) *v1.Pod) (float64, error) {
	pods, err := c.client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer pods.Stop()
	endpoints, err := c.client.DiscoveryV1().EndpointSlices(ns).Watch(ctx, metav1.ListOptions{})
	if err != nil {
		return 0, err
	}
	defer endpoints.Stop()
	more := min(newPods, n)
	next := time.NewTicker(50 * time.Millisecond)
	defer next.Stop()
	lag := endpointLag{made: map[types.UID]bool{}, ready: map[types.UID]time.Time{}, seen: map[types.UID]time.Time{}}
	for len(lag.took) < more {
		select {
		case <-ctx.Done():
			return 0, ctx.Err()
		case <-next.C:
			if len(lag.made) == more {
				continue
			}
			p, err := c.client.CoreV1().Pods(ns).Create(ctx, pod(len(lag.made)*n/more, 1), metav1.CreateOptions{})
			if err != nil {
				return 0, err
			}
			lag.made[p.UID] = true
		case e := <-pods.ResultChan():
			lag.pod(e.Object)
		case e := <-endpoints.ResultChan():
			lag.slice(e.Object)
		}
		lag.reckon()
	}
	return millis(lag.took.at(0.99)), nil
}

// endpointLag is when a watcher saw the pods that were made, as pods and in slices.
type endpointLag struct {
	made        map[types.UID]bool // true until it is reckoned
	ready, seen map[types.UID]time.Time
	took        times
}

func (l *endpointLag) pod(o runtime.Object) {
	if p, ok := o.(*v1.Pod); ok && l.ready[p.UID].IsZero() && isReady(p) {
		l.ready[p.UID] = time.Now()
	}
}

func (l *endpointLag) slice(o runtime.Object) {
	s, ok := o.(*discoveryv1.EndpointSlice)
	if !ok {
		return
	}
	for i := range s.Endpoints {
		if ref := s.Endpoints[i].TargetRef; ref != nil && l.seen[ref.UID].IsZero() {
			l.seen[ref.UID] = time.Now()
		}
	}
}

func (l *endpointLag) reckon() {
	for uid := range l.made {
		if l.made[uid] && !l.ready[uid].IsZero() && !l.seen[uid].IsZero() {
			l.took, l.made[uid] = append(l.took, max(l.seen[uid].Sub(l.ready[uid]), 0)), false
		}
	}
}

func isReady(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool {
		return c.Type == v1.PodReady && c.Status == v1.ConditionTrue
	})
}
