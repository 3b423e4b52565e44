// Package simulate registers nodes that are none: pods bound to them are
// reported Running without containers, those of Jobs as Succeeded right after,
// and go when they are deleted. It serves load tests and people without root.
//
// It is made for thousands of nodes in one process: one watch for all pods, no
// cache of them, a few writers, and one loop that renews the Leases spread over
// time.
package simulate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiruntime "k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
)

// Config says what to simulate. REST or Client, and N, are required.
type Config struct {
	REST   *rest.Config
	Client kubernetes.Interface
	// N nodes named NamePrefix-0 … (prefix "sim" unless set).
	N          int
	NamePrefix string
	Shape      Shape
	// Writers is how many requests are under way at once; 16 unless set.
	Writers int
	// LeaseEvery is how often each Lease is renewed; 15 s unless set.
	LeaseEvery time.Duration
	Log        *slog.Logger
	// Registered, if set, is called once all nodes are there.
	Registered func()
}

// Shape is what each node offers. Unset, it is 16 CPUs, 64 GiB and 110 pods.
type Shape struct {
	Capacity v1.ResourceList
	Labels   map[string]string
	Taints   []v1.Taint
	// Zones spreads the nodes over that many zones (topology.kubernetes.io/zone).
	Zones int
}

// ParseShape reads "cpu=16,memory=64Gi,pods=110,nvidia.com/gpu=2".
func ParseShape(text string) (Shape, error) {
	s := Shape{Capacity: v1.ResourceList{}}
	for part := range strings.SplitSeq(text, ",") {
		name, value, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			return s, fmt.Errorf("node shape %q: want NAME=QUANTITY, such as cpu=16,memory=64Gi,pods=110", part)
		}
		if name == "zones" {
			n, err := strconv.Atoi(value)
			if err != nil || n < 1 {
				return s, fmt.Errorf("node shape %q: want a number of zones", part)
			}
			s.Zones = n
			continue
		}
		q, err := resource.ParseQuantity(value)
		if err != nil || q.Sign() < 0 {
			return s, fmt.Errorf("node shape %q: %q is no quantity", part, value)
		}
		s.Capacity[v1.ResourceName(name)] = q
	}
	return s, nil
}

func (s *Shape) defaults() {
	capacity := v1.ResourceList{
		v1.ResourceCPU: resource.MustParse("16"), v1.ResourceMemory: resource.MustParse("64Gi"),
		v1.ResourcePods: resource.MustParse("110"), v1.ResourceEphemeralStorage: resource.MustParse("100Gi"),
	}
	for name, q := range s.Capacity {
		capacity[name] = q
	}
	s.Capacity = capacity
}

// Run registers the nodes and tends their pods until ctx ends. The Node objects
// stay.
func Run(ctx context.Context, cfg Config) error {
	if cfg.N < 1 {
		return errors.New("simulate: N must be at least 1")
	}
	if cfg.REST == nil && cfg.Client == nil {
		return errors.New("simulate: REST is missing")
	}
	if cfg.NamePrefix == "" {
		cfg.NamePrefix = "sim"
	}
	if cfg.Writers == 0 {
		cfg.Writers = 16
	}
	if cfg.LeaseEvery == 0 {
		cfg.LeaseEvery = 15 * time.Second
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Shape.defaults()
	s := &simulation{cfg: cfg, client: cfg.Client, nodes: make(map[string]int, cfg.N), queue: newQueue(), pulses: make([]pulse, cfg.N)}
	if s.client == nil {
		c := rest.CopyConfig(cfg.REST)
		c.QPS, c.Burst = -1, 0
		c.ContentType, c.AcceptContentTypes = apiruntime.ContentTypeProtobuf, apiruntime.ContentTypeProtobuf+",application/json"
		var err error
		if s.client, err = kubernetes.NewForConfig(c); err != nil {
			return fmt.Errorf("simulate: %w", err)
		}
	}
	for i := range cfg.N {
		s.nodes[s.name(i)] = i
	}
	err := s.run(ctx)
	if ctx.Err() != nil {
		return nil
	}
	return err
}

type simulation struct {
	cfg    Config
	client kubernetes.Interface
	nodes  map[string]int
	queue  *queue
	pulses []pulse
}

// pulse is when a node last renewed its Lease, and for how many renewals more
// its status is looked at.
type pulse struct {
	mu   sync.Mutex
	last time.Time
	look int
}

// beat notes a renewal and says whether the host may have given the node up
// meanwhile: it may do so a little after the Lease that comes late.
func (p *pulse) beat(now time.Time, every time.Duration) (look bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.last.IsZero() && now.Sub(p.last) > 2*every {
		p.look = 3
	}
	p.last = now
	p.look--
	return p.look >= 0
}

func (s *simulation) name(i int) string { return fmt.Sprintf("%s-%d", s.cfg.NamePrefix, i) }

func (s *simulation) run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error {
		if err := s.register(ctx); err != nil {
			return err
		}
		if s.cfg.Registered != nil {
			s.cfg.Registered()
		}
		return s.leases(ctx)
	})
	g.Go(func() error { s.follow(ctx); return nil })
	for range s.cfg.Writers {
		g.Go(func() error { s.write(ctx); return nil })
	}
	g.Go(func() error { <-ctx.Done(); s.queue.close(); return nil })
	return g.Wait()
}

// register makes all nodes, or takes over those that are there.
func (s *simulation) register(ctx context.Context) error {
	began := time.Now()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(s.cfg.Writers)
	for i := range s.cfg.N {
		g.Go(func() error {
			err := s.try(ctx, func() error { return s.make(ctx, i) })
			s.pulses[i].beat(time.Now(), s.cfg.LeaseEvery) // the host counts from here
			return err
		})
	}
	if err := g.Wait(); err != nil {
		return err
	}
	s.cfg.Log.Info("simulated nodes are registered", "nodes", s.cfg.N, "took", time.Since(began))
	return nil
}

// try tries again while the API can not be reached.
func (s *simulation) try(ctx context.Context, f func() error) error {
	for wait := 100 * time.Millisecond; ; wait = min(2*wait, 5*time.Second) {
		err := f()
		if err == nil || ctx.Err() != nil {
			return ctx.Err()
		}
		if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) || apierrors.IsUnauthorized(err) {
			return err
		}
		s.cfg.Log.Warn("simulated node", "err", err, "again", wait)
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(wait):
		}
	}
}

func (s *simulation) describe(i int) *v1.Node {
	name, now := s.name(i), metav1.Now()
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: node.Labels(name, s.cfg.Shape.Labels)}}
	n.Labels["type"] = "simulated"
	n.Labels[v1.LabelNodeExcludeBalancers] = "" // nothing answers there
	if s.cfg.Shape.Zones > 0 {
		n.Labels[v1.LabelTopologyZone] = fmt.Sprintf("zone-%d", i%s.cfg.Shape.Zones)
	}
	n.Spec.Taints = s.cfg.Shape.Taints
	condition := func(t v1.NodeConditionType, status v1.ConditionStatus, reason string) v1.NodeCondition {
		return v1.NodeCondition{Type: t, Status: status, Reason: reason, LastHeartbeatTime: now, LastTransitionTime: now}
	}
	n.Status = v1.NodeStatus{
		Capacity: s.cfg.Shape.Capacity, Allocatable: s.cfg.Shape.Capacity,
		Conditions: []v1.NodeCondition{
			condition(v1.NodeMemoryPressure, v1.ConditionFalse, "KubeletHasSufficientMemory"),
			condition(v1.NodeDiskPressure, v1.ConditionFalse, "KubeletHasNoDiskPressure"),
			condition(v1.NodePIDPressure, v1.ConditionFalse, "KubeletHasSufficientPID"),
			condition(v1.NodeReady, v1.ConditionTrue, "KubeletReady"),
		},
		Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: address(i)}, {Type: v1.NodeHostName, Address: name}},
		NodeInfo:  v1.NodeSystemInfo{KubeletVersion: "v1.36.3", ContainerRuntimeVersion: "simulated://1", OperatingSystem: "linux", Architecture: "amd64", OSImage: "simulated", KernelVersion: "simulated"},
	}
	return n
}

// address gives each node one of 198.18.0.0/15, which is kept for benchmarks.
func address(i int) string { return fmt.Sprintf("198.%d.%d.%d", 18+i>>16&1, i>>8&255, i&255) }

func (s *simulation) make(ctx context.Context, i int) error {
	want := s.describe(i)
	made, err := s.client.CoreV1().Nodes().Create(ctx, want, metav1.CreateOptions{})
	if apierrors.IsAlreadyExists(err) {
		made, err = s.client.CoreV1().Nodes().Get(ctx, want.Name, metav1.GetOptions{})
	}
	if err != nil {
		return err
	}
	if !isReady(made) {
		made = made.DeepCopy()
		made.Status = want.Status
		if _, err := s.client.CoreV1().Nodes().UpdateStatus(ctx, made, metav1.UpdateOptions{}); err != nil {
			return err
		}
	}
	return s.renew(ctx, i)
}

func isReady(n *v1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == v1.NodeReady {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// leases renews all Leases, evenly over time.
func (s *simulation) leases(ctx context.Context) error {
	const slices = 50 // ticks for each round
	tick := time.NewTicker(max(s.cfg.LeaseEvery/slices, time.Millisecond))
	defer tick.Stop()
	g := errgroup.Group{}
	g.SetLimit(max(s.cfg.Writers/2, 1))
	defer func() { _ = g.Wait() }()
	for turn := 0; ; turn++ {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
		for i := turn % slices; i < s.cfg.N; i += slices {
			g.Go(func() error {
				err := s.renew(ctx, i)
				if err == nil && s.pulses[i].beat(time.Now(), s.cfg.LeaseEvery) {
					err = s.make(ctx, i)
				}
				if err != nil && ctx.Err() == nil {
					s.cfg.Log.Warn("renew a simulated node's lease", "node", s.name(i), "err", err)
				}
				return nil
			})
		}
	}
}

// renew patches the Lease without reading it: nobody else writes it, and an
// update would have to name its version.
func (s *simulation) renew(ctx context.Context, i int) error {
	name, seconds, now := s.name(i), int32(node.LeaseSeconds), metav1.NowMicro()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: v1.NamespaceNodeLease, Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	}
	patch, err := json.Marshal(map[string]any{"spec": lease.Spec})
	if err != nil {
		return err
	}
	leases := s.client.CoordinationV1().Leases(v1.NamespaceNodeLease)
	_, err = leases.Patch(ctx, name, types.MergePatchType, patch, metav1.PatchOptions{})
	if apierrors.IsNotFound(err) {
		_, err = leases.Create(ctx, lease, metav1.CreateOptions{})
	}
	return err
}

// bound selects the pods that have a node.
const bound = "spec.nodeName!="

// follow watches all bound pods.
func (s *simulation) follow(ctx context.Context) {
	source := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (apiruntime.Object, error) {
			o.FieldSelector = bound
			return s.client.CoreV1().Pods("").List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = bound
			return s.client.CoreV1().Pods("").Watch(ctx, o)
		},
	}, s.client)
	cache.NewReflector(source, &v1.Pod{}, sink{s}, 0).RunWithContext(ctx)
}

// sink takes pods from the watch and keeps none.
type sink struct{ *simulation }

func (s sink) Add(obj any) error    { return s.take(obj) }
func (s sink) Update(obj any) error { return s.take(obj) }
func (s sink) Delete(any) error     { return nil }
func (s sink) Resync() error        { return nil }
func (s sink) Replace(list []any, _ string) error {
	for _, obj := range list {
		if err := s.take(obj); err != nil {
			return err
		}
	}
	return nil
}

func (s sink) take(obj any) error {
	p, ok := obj.(*v1.Pod)
	if !ok {
		return nil
	}
	if _, ours := s.nodes[p.Spec.NodeName]; ours && due(p) {
		s.queue.put(p)
	}
	return nil
}

// due says whether a pod's simulation has something to write.
func due(p *v1.Pod) bool {
	switch p.Status.Phase {
	case v1.PodPending, "":
		return true
	case v1.PodRunning:
		return p.DeletionTimestamp != nil || ends(p) || len(p.Spec.ReadinessGates) > 0 && has(p, v1.PodReady) != gatesOpen(p)
	}
	return p.DeletionTimestamp != nil
}

// ends says whether a pod's work is done as soon as it runs: that of Jobs, which
// otherwise would never end.
func ends(p *v1.Pod) bool {
	owner := metav1.GetControllerOf(p)
	return owner != nil && owner.Kind == "Job" && p.Spec.RestartPolicy != v1.RestartPolicyAlways
}

// gatesOpen says whether all readiness gates of a pod are: it has no containers
// to wait for.
func gatesOpen(p *v1.Pod) bool {
	for _, g := range p.Spec.ReadinessGates {
		if !has(p, g.ConditionType) {
			return false
		}
	}
	return true
}

// has says whether a condition of the pod is True.
func has(p *v1.Pod, kind v1.PodConditionType) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == kind {
			return c.Status == v1.ConditionTrue
		}
	}
	return false
}

// readiness is a running pod's, by its gates.
func readiness(p *v1.Pod, now metav1.Time) v1.PodCondition {
	c := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: p.Generation}
	if !gatesOpen(p) {
		c.Status, c.Reason = v1.ConditionFalse, "ReadinessGatesNotReady"
	}
	return c
}

// write brings queued pods where they belong.
func (s *simulation) write(ctx context.Context) {
	for {
		p := s.queue.take()
		if p == nil {
			return
		}
		if err := s.settle(ctx, p); err != nil && ctx.Err() == nil {
			s.cfg.Log.Warn("simulate a pod", "pod", p.Name, "namespace", p.Namespace, "err", err)
			time.AfterFunc(time.Second, func() { s.queue.put(p) })
		}
	}
}

func (s *simulation) settle(ctx context.Context, p *v1.Pod) error {
	pods := s.client.CoreV1().Pods(p.Namespace)
	if p.DeletionTimestamp != nil {
		zero := int64(0)
		err := pods.Delete(ctx, p.Name, metav1.DeleteOptions{GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID}})
		if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
			return nil
		}
		return err
	}
	for range 5 {
		out := p.DeepCopy()
		switch {
		case p.Status.Phase != v1.PodRunning:
			run(out, s.nodes[p.Spec.NodeName])
		case ends(p):
			end(out)
		default:
			put(&out.Status, readiness(out, metav1.Now()))
		}
		_, err := pods.UpdateStatus(ctx, out, metav1.UpdateOptions{})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if !apierrors.IsConflict(err) {
			return err
		}
		fresh, err := pods.Get(ctx, p.Name, metav1.GetOptions{})
		if err != nil || fresh.UID != p.UID || !due(fresh) {
			return ignoreNotFound(err)
		}
		p = fresh
	}
	return errors.New("its status changes all the time")
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// podAddress gives each pod one of 240.0.0.0/8, which no network has: a site's
// own machines must not be asked on behalf of a pod that is none.
func podAddress(p *v1.Pod) string {
	h := fnv.New32a()
	h.Write([]byte(p.UID))
	sum := h.Sum32()
	return fmt.Sprintf("240.%d.%d.%d", sum>>16&255, sum>>8&255, sum&255)
}

// run makes a pod's status that of one that runs.
func run(p *v1.Pod, nodeIndex int) {
	now := metav1.Now()
	st := &p.Status
	st.Phase, st.StartTime, st.ObservedGeneration = v1.PodRunning, &now, p.Generation
	st.QOSClass = pod.QOS(p)
	st.HostIP, st.HostIPs = address(nodeIndex), []v1.HostIP{{IP: address(nodeIndex)}}
	st.PodIP = podAddress(p)
	st.PodIPs = []v1.PodIP{{IP: st.PodIP}}
	for _, t := range []v1.PodConditionType{v1.PodReadyToStartContainers, v1.PodInitialized, v1.ContainersReady} {
		put(st, v1.PodCondition{Type: t, Status: v1.ConditionTrue, LastTransitionTime: now, ObservedGeneration: p.Generation})
	}
	put(st, readiness(p, now))
	yes := true
	st.ContainerStatuses = nil
	for i := range p.Spec.Containers {
		c := &p.Spec.Containers[i]
		st.ContainerStatuses = append(st.ContainerStatuses, v1.ContainerStatus{
			Name: c.Name, Image: c.Image, ImageID: c.Image, Ready: true, Started: &yes,
			ContainerID: fmt.Sprintf("simulated://%s-%s", p.UID, c.Name),
			State:       v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: now}},
		})
	}
}

// end makes a running pod's status that of one whose containers have succeeded.
func end(p *v1.Pod) {
	now := metav1.Now()
	p.Status.Phase = v1.PodSucceeded
	for _, t := range []v1.PodConditionType{v1.PodReady, v1.ContainersReady} {
		put(&p.Status, v1.PodCondition{Type: t, Status: v1.ConditionFalse, Reason: "PodCompleted", LastTransitionTime: now, ObservedGeneration: p.Generation})
	}
	no := false
	for i := range p.Status.ContainerStatuses {
		c := &p.Status.ContainerStatuses[i]
		began := now
		if c.State.Running != nil {
			began = c.State.Running.StartedAt
		}
		c.Ready, c.Started = false, &no
		c.State = v1.ContainerState{Terminated: &v1.ContainerStateTerminated{Reason: "Completed", StartedAt: began, FinishedAt: now, ContainerID: c.ContainerID}}
	}
}

func put(st *v1.PodStatus, c v1.PodCondition) {
	for i := range st.Conditions {
		if st.Conditions[i].Type == c.Type {
			st.Conditions[i] = c
			return
		}
	}
	st.Conditions = append(st.Conditions, c)
}

// queue holds the newest version of each pod that has something due.
type queue struct {
	mu     sync.Mutex
	ready  *sync.Cond
	order  []string
	newest map[string]*v1.Pod
	closed bool
}

func newQueue() *queue {
	q := &queue{newest: map[string]*v1.Pod{}}
	q.ready = sync.NewCond(&q.mu)
	return q
}

func (q *queue) put(p *v1.Pod) {
	q.mu.Lock()
	defer q.mu.Unlock()
	uid := string(p.UID)
	if _, waits := q.newest[uid]; !waits {
		q.order = append(q.order, uid)
	}
	q.newest[uid] = p
	q.ready.Signal()
}

// take waits for a pod; nil is the end.
func (q *queue) take() *v1.Pod {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.ready.Wait()
	}
	if q.closed {
		return nil
	}
	uid := q.order[0]
	q.order = q.order[1:]
	p := q.newest[uid]
	delete(q.newest, uid)
	return p
}

func (q *queue) close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.ready.Broadcast()
}
