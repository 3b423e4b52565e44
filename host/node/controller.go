package node

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/component-helpers/node/topology"

	"github.com/berth-dev/berth/host/store"
)

// Objects is the part of the store that the controller uses.
type Objects interface {
	Revision() int64
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Indexed(resource, index, value string) []store.Object
	Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error)
	Watch(resource, namespace string, from int64) (*store.Watch, error)
}

// Remover takes pods away.
type Remover interface {
	// Evict deletes the pod with its grace period, for reason.
	Evict(ctx context.Context, pod *v1.Pod, reason, message string) error
	// Collect removes the pod at once, as one that failed: nobody is left to
	// confirm its end. disruption says what befell it, "" that nothing did.
	Collect(ctx context.Context, pod *v1.Pod, disruption string) error
}

// IndexByNode is the store's index of pods by spec.nodeName.
const IndexByNode = "spec.nodeName"

const (
	tick         = time.Second
	collectEvery = 20 * time.Second
	// quarantine is how long a node must be missing before its pods are collected: it
	// may be about to register again.
	quarantine = 40 * time.Second
	leases     = "leases.coordination.k8s.io"
	leaseNS    = "kube-node-lease"
)

// Controller applies what this package judges.
type Controller struct {
	objects Objects
	remover Remover
	now     func() time.Time
	log     *slog.Logger
	// silence is how long a node may leave its Lease unrenewed.
	silence time.Duration
	// endedPods is how many pods that have ended are kept; 0 keeps all.
	endedPods int

	heard     map[types.UID]*heard
	pace      pace
	collected time.Time
	// missing is since when nodes that pods name are not there.
	missing map[string]time.Time

	// cluster is the pod network, of which each node gets a part.
	cluster   netip.Prefix
	taken     map[netip.Prefix]bool
	exhausted bool
}

// heard is when a node last renewed its Lease or told its status, by this
// host's own clock, so that clocks need not agree.
type heard struct {
	renewal, heartbeat time.Time
	at                 time.Time
	// node is as it was last looked at, and what is read here was read from it.
	node             *v1.Node
	zone             string
	serves, excluded bool
	// ready: it serves, and was heard of lately.
	ready bool
	// settled: there is nothing to do for it while it is ready and stays as it is.
	settled bool
	// unready: it is lost, and its pods were taken out of service.
	unready bool
	// met is since when its pods are together with its taints, where these do not
	// say when they were added.
	met map[meeting]time.Time
}

// meeting is a pod's with a taint of its node.
type meeting struct {
	pod   types.UID
	taint string
}

// Config is what a Controller needs.
type Config struct {
	Objects Objects
	Remover Remover
	// Silence is how long a node may leave its Lease unrenewed; 40 s if 0.
	Silence time.Duration
	// PodRange is the cluster's pod network; invalid: nodes get no part of it.
	PodRange netip.Prefix
	// EndedPods is how many pods that have ended are kept; 0 keeps all.
	EndedPods int
	Now       func() time.Time
	Log       *slog.Logger
}

// New makes a controller. Nodes have the time of silence from now on to be
// heard of.
func New(c Config) *Controller {
	if c.Silence <= 0 {
		c.Silence = Silence
	}
	return &Controller{
		objects: c.Objects, remover: c.Remover, silence: c.Silence, endedPods: c.EndedPods, cluster: c.PodRange,
		now: c.Now, log: c.Log, heard: map[types.UID]*heard{}, pace: pace{log: c.Log},
	}
}

// Run works until ctx ends.
func (c *Controller) Run(ctx context.Context) error {
	ticker := time.NewTicker(tick)
	defer ticker.Stop()
	c.collected = c.now()
	changed := make(chan []string)
	ended := make(chan error, 1)
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() { ended <- c.follow(ctx, changed) }()
	c.sweep(ctx)
	for {
		select {
		case names := <-changed:
			c.look(ctx, names)
		case <-ticker.C:
			c.sweep(ctx)
		case err := <-ended:
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
	}
}

// follow names on changed the nodes that are not what they were.
func (c *Controller) follow(ctx context.Context, changed chan<- []string) error {
	for {
		watch, err := c.objects.Watch("nodes", "", c.objects.Revision())
		if err != nil {
			return err
		}
		for {
			var events []store.Event
			if events, err = watch.Next(ctx); err != nil {
				break
			}
			names := make([]string, len(events))
			for i := range events {
				names[i] = events[i].Key.Name
			}
			select {
			case changed <- names:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// look tends the nodes that have just changed.
func (c *Controller) look(ctx context.Context, names []string) {
	now := c.now()
	for _, name := range names {
		o, ok := c.objects.Get(store.Key{Resource: "nodes", Name: name})
		if !ok {
			continue
		}
		if node, ok := o.(*v1.Node); ok {
			c.tend(ctx, c.hear(node, now), c.pace.keeps(node), now)
		}
	}
}

// sweep looks at every node once, and now and then for abandoned pods.
func (c *Controller) sweep(ctx context.Context) {
	now := c.now()
	nodes, err := c.objects.List("nodes", "", store.ListOptions{})
	if err != nil {
		c.log.Error("list nodes", "err", err)
		return
	}
	all := make([]*heard, 0, len(nodes.Items))
	for _, o := range nodes.Items {
		if node, ok := o.(*v1.Node); ok {
			all = append(all, c.hear(node, now))
		}
	}
	if len(all) < len(c.heard) {
		c.forget(all)
	}
	c.pace.survey(all, now)
	for _, h := range all {
		if !h.ready || !h.settled {
			c.tend(ctx, h, !h.ready && c.pace.evicts(h, now), now)
		}
	}
	if now.Sub(c.collected) >= collectEvery {
		c.collected = now
		c.collect(ctx)
	}
}

// forget drops what was heard of all other nodes, which gave their ranges back.
func (c *Controller) forget(all []*heard) {
	c.taken, c.exhausted = nil, false
	kept := make(map[types.UID]*heard, len(all))
	for _, h := range all {
		kept[h.node.UID] = h
	}
	c.heard = kept
}

// hear returns when the node was last heard of.
func (c *Controller) hear(node *v1.Node, now time.Time) *heard {
	h := c.heard[node.UID]
	if h == nil {
		h = &heard{at: now}
		c.heard[node.UID] = h
	}
	if o, ok := c.objects.Get(store.Key{Resource: leases, Namespace: leaseNS, Name: node.Name}); ok {
		lease, ok := o.(*coordinationv1.Lease)
		if ok && lease.Spec.RenewTime != nil && !lease.Spec.RenewTime.Time.Equal(h.renewal) {
			h.renewal, h.at = lease.Spec.RenewTime.Time, now
		}
	}
	if h.node != node { // what is stored does not change
		h.read(node, now)
	}
	h.ready = h.serves && !c.silent(h, now)
	return h
}

func (h *heard) read(node *v1.Node, now time.Time) {
	if beat := heartbeat(node); !beat.Equal(h.heartbeat) {
		h.heartbeat, h.at = beat, now
	}
	_, h.excluded = node.Labels[excludeDisruption]
	h.node, h.zone, h.serves, h.settled = node, topology.GetZoneKey(node), serves(node), false
}

// heartbeat is when the node itself last said whether it is ready. Agents of
// others may do no more than that.
func heartbeat(node *v1.Node) time.Time {
	for i := range node.Status.Conditions {
		if c := &node.Status.Conditions[i]; c.Type == v1.NodeReady {
			return c.LastHeartbeatTime.Time
		}
	}
	return time.Time{}
}

func (c *Controller) silent(h *heard, now time.Time) bool { return now.Sub(h.at) >= c.silence }

// tend writes the conditions and taints that the node must have, and evicts. evicts
// says whether it has the taint that evicts, if it is not ready.
func (c *Controller) tend(ctx context.Context, h *heard, evicts bool, now time.Time) {
	node := h.node
	fresh, err := c.mark(ctx, node, h, evicts, now)
	if err == nil {
		err = c.takeOut(ctx, fresh, h, now)
	}
	if err == nil {
		err = errors.Join(c.allot(ctx, fresh), c.evict(ctx, fresh, h, now))
	}
	h.settled = err == nil && fresh == node && h.met == nil && !c.lacksRange(node)
	if err != nil && !errors.Is(err, store.ErrNotFound) && ctx.Err() == nil {
		c.log.Warn("tend node", "node", node.Name, "err", err)
	}
}

func (c *Controller) mark(ctx context.Context, node *v1.Node, h *heard, evicts bool, now time.Time) (*v1.Node, error) {
	silent := c.silent(h, now)
	if _, changed := marked(node, silent, evicts, now); !changed {
		return node, nil
	}
	o, err := c.objects.Update(ctx, store.Key{Resource: "nodes", Name: node.Name}, func(o store.Object) (store.Object, error) {
		next, _ := marked(o.(*v1.Node), silent, evicts, now)
		return next, nil
	})
	if err != nil {
		return nil, err
	}
	next := o.(*v1.Node)
	if silent {
		c.log.Warn("node is silent", "node", node.Name, "since", h.at)
	}
	return next, nil
}

// marked returns the node as it must be.
func marked(node *v1.Node, silent, evicts bool, now time.Time) (*v1.Node, bool) {
	conditions, first := Conditions(node, silent, now)
	next := *node
	next.Status.Conditions = conditions
	taints, second := Taints(&next, evicts, now)
	if !first && !second {
		return node, false
	}
	next.Spec.Taints = taints
	return next.DeepCopy(), true
}

// takeOut takes the pods of a lost node out of service, once: also where it was
// lost before this host began.
func (c *Controller) takeOut(ctx context.Context, node *v1.Node, h *heard, now time.Time) error {
	if !lost.holds(node) {
		h.unready = false
		return nil
	}
	if h.unready {
		return nil
	}
	err := c.unready(ctx, node.Name, now)
	h.unready = err == nil
	return err
}

// unready writes that a node's pods are not ready.
func (c *Controller) unready(ctx context.Context, node string, now time.Time) error {
	var errs []error
	for _, o := range c.objects.Indexed("pods", IndexByNode, node) {
		_, err := c.objects.Update(ctx, store.Key{Resource: "pods", Namespace: o.GetNamespace(), Name: o.GetName()}, func(o store.Object) (store.Object, error) {
			return notReady(o.(*v1.Pod), now), nil
		})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// collect removes the pods that nobody will end any more, and of those that have
// ended the ones that are too many.
func (c *Controller) collect(ctx context.Context) {
	list, err := c.objects.List("pods", "", store.ListOptions{})
	if err != nil {
		c.log.Error("list pods", "err", err)
		return
	}
	pods := make([]*v1.Pod, 0, len(list.Items))
	now, missing := c.now(), map[string]time.Time{}
	for _, o := range list.Items {
		pod, ok := o.(*v1.Pod)
		if !ok {
			continue
		}
		var node *v1.Node
		if o, ok := c.objects.Get(store.Key{Resource: "nodes", Name: pod.Spec.NodeName}); ok {
			node, _ = o.(*v1.Node)
		}
		why := Abandoned(pod, node)
		if why == "" {
			pods = append(pods, pod)
			continue
		}
		disruption := ""
		if name := pod.Spec.NodeName; node == nil && name != "" {
			since, known := c.missing[name]
			if !known {
				since = now
			}
			if missing[name] = since; now.Sub(since) < quarantine {
				continue
			}
			disruption = why
		}
		c.remove(ctx, pod, why, disruption)
	}
	c.missing = missing
	for _, pod := range surplus(pods, c.endedPods) {
		c.remove(ctx, pod, "too many pods have ended", "")
	}
}

func (c *Controller) remove(ctx context.Context, pod *v1.Pod, why, disruption string) {
	c.log.Info("collect pod", "pod", pod.Namespace+"/"+pod.Name, "why", why)
	if err := c.remover.Collect(ctx, pod, disruption); err != nil && ctx.Err() == nil {
		c.log.Warn("collect pod", "pod", pod.Namespace+"/"+pod.Name, "err", err)
	}
}

// evict deletes the pods whose time on the tainted node is over.
func (c *Controller) evict(ctx context.Context, node *v1.Node, h *heard, now time.Time) error {
	before := h.met
	h.met = nil
	if !evicts(node) {
		return nil
	}
	h.met = map[meeting]time.Time{}
	var errs []error
	for _, o := range c.objects.Indexed("pods", IndexByNode, node.Name) {
		pod, ok := o.(*v1.Pod)
		if !ok || pod.DeletionTimestamp != nil || ended(pod) {
			continue
		}
		at, due := EvictAt(pod, node.Spec.Taints, func(t *v1.Taint) time.Time {
			m := meeting{pod.UID, t.ToString()}
			at, ok := before[m]
			if !ok {
				at = now
			}
			h.met[m] = at
			return at
		})
		if !due || now.Before(at) {
			continue
		}
		c.log.Info("evict pod", "pod", pod.Namespace+"/"+pod.Name, "node", node.Name)
		errs = append(errs, c.remover.Evict(ctx, pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint"))
	}
	return errors.Join(errs...)
}

func evicts(node *v1.Node) bool {
	for i := range node.Spec.Taints {
		if node.Spec.Taints[i].Effect == v1.TaintEffectNoExecute {
			return true
		}
	}
	return false
}

func ended(pod *v1.Pod) bool {
	return pod.Status.Phase == v1.PodSucceeded || pod.Status.Phase == v1.PodFailed
}
