package nodeagent

import (
	"context"
	"net/netip"
	goruntime "runtime"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/admit"
	"github.com/berth-dev/berth/nodeagent/node"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/service"
	"github.com/berth-dev/berth/nodeagent/static"
)

// follow watches this machine's pods and its Node, and feeds the workers.
func (a *Agent) follow(ctx context.Context) error {
	nodes := informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("metadata.name", a.cfg.NodeName).String()
	}))
	if _, err := nodes.Core().V1().Nodes().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.is(obj.(*v1.Node)) },
		UpdateFunc: func(_, obj any) { a.is(obj.(*v1.Node)) },
	}); err != nil {
		return err
	}
	nodes.Start(ctx.Done())
	defer nodes.Shutdown()
	a.awaitNode(ctx)

	pods := informers.NewSharedInformerFactoryWithOptions(a.client, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector("spec.nodeName", a.cfg.NodeName).String()
	}))
	informer := pods.Core().V1().Pods().Informer()
	if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.set(obj.(*v1.Pod)) },
		UpdateFunc: func(old, obj any) {
			p, was := obj.(*v1.Pod), old.(*v1.Pod)
			if was.UID != p.UID {
				a.gone(was)
			}
			a.set(p)
		},
		DeleteFunc: func(obj any) {
			if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
				obj = tomb.Obj
			}
			if p, ok := obj.(*v1.Pod); ok {
				a.gone(p)
			}
		},
	}); err != nil {
		return err
	}
	pods.Start(ctx.Done())
	defer pods.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return ctx.Err()
	}
	known := map[string]bool{}
	a.pool.Keep(func() map[string]bool {
		for _, obj := range informer.GetStore().List() {
			known[string(obj.(*v1.Pod).UID)] = true
		}
		for uid := range a.staticPods() { // the API knows their mirrors
			known[uid] = true
		}
		return known
	})
	a.sweep(ctx, known)
	<-ctx.Done()
	return ctx.Err()
}

// awaitNode waits a moment for our own Node, whose labels and taints admission
// needs; without it the agent's own description serves.
func (a *Agent) awaitNode(ctx context.Context) {
	deadline := time.NewTimer(5 * time.Second)
	defer deadline.Stop()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for a.self.Load() == nil {
		select {
		case <-ctx.Done():
			return
		case <-deadline.C:
			return
		case <-tick.C:
		}
	}
}

func (a *Agent) set(p *v1.Pod) {
	if p.Spec.NodeName != a.cfg.NodeName {
		return // a server that does not know the field selector
	}
	if !a.static.Mirror(p) {
		a.run(static.FromAPI(p))
	}
}

// run has a worker look after a pod, new or changed.
func (a *Agent) run(p *v1.Pod) {
	if a.isolated != nil {
		a.isolated.Set(p)
	}
	a.pool.Set(p, func(active []*v1.Pod) *pod.Verdict {
		self := a.self.Load()
		if self == nil {
			self = a.describe(context.Background())
		}
		if a.closing.Load() {
			return &pod.Verdict{Reason: "NodeShutdown", Message: shutdownRefusal}
		}
		if v := a.pressure.refuses(p); v != nil {
			return v
		}
		features := admit.Features{OS: goruntime.GOOS, AppArmor: a.version.AppArmor}
		return admit.Admit(a.withOwn(self), features, active, p)
	})
	if a.proxy != nil && holdsPort(p) {
		a.proxy.Wake() // a Service may have that port
	}
}

// portHolders are the pods that have ports of the machine.
func (a *Agent) portHolders() (all []*v1.Pod) {
	a.pool.Each(func(r *pod.Record) {
		if holdsPort(r.Pod) && r.Active() {
			all = append(all, r.Pod)
		}
	})
	return all
}

func holdsPort(p *v1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(p.Spec.InitContainers, p.Spec.Containers), func(c v1.Container) bool {
		return slices.ContainsFunc(c.Ports, func(port v1.ContainerPort) bool { return port.HostPort != 0 })
	})
}

// gone tells that the API has a pod no more.
func (a *Agent) gone(p *v1.Pod) {
	if !a.static.MirrorGone(p) {
		a.delete(string(p.UID))
	}
}

// staticPods are those among the workers' pods, by UID.
func (a *Agent) staticPods() map[string]*v1.Pod {
	all := map[string]*v1.Pod{}
	a.pool.Each(func(r *pod.Record) {
		if static.Is(r.Pod) {
			all[string(r.Pod.UID)] = r.Pod
		}
	})
	return all
}

// delete ends a pod that nobody wants any more.
func (a *Agent) delete(uid string) {
	if a.isolated != nil {
		a.isolated.Delete(uid)
	}
	a.pool.Delete(uid)
}

// withOwn is the Node with what this machine really has, and the extended
// resources that the API tells of.
func (a *Agent) withOwn(self *v1.Node) *v1.Node {
	own, allocatable := self.DeepCopy(), a.allocatable()
	for name, q := range self.Status.Allocatable {
		if _, ok := allocatable[name]; !ok && node.IsExtended(name) {
			allocatable[name] = q
		}
	}
	own.Status.Allocatable = allocatable
	return own
}

// is notes what the API says that this node is.
func (a *Agent) is(self *v1.Node) {
	a.self.Store(self)
	if a.proxy != nil {
		a.proxy.Wake()
	}
}

// labels are the node's, as the API has them once it was asked.
func (a *Agent) labels() map[string]string {
	if self := a.self.Load(); self != nil {
		return self.Labels
	}
	return node.Labels(a.cfg.NodeName, a.cfg.Labels)
}

// place is what of this node matters to services.
func (a *Agent) place() service.Node {
	n := service.Node{Name: a.cfg.NodeName}
	if own := a.own(); own.IsValid() {
		n.Addresses = append(n.Addresses, own)
	}
	if self := a.self.Load(); self != nil {
		n.Zone = self.Labels[v1.LabelTopologyZone]
	}
	return n
}

// own is this machine's address.
func (a *Agent) own() netip.Addr {
	own, err := netip.ParseAddr(a.address)
	if err != nil {
		return netip.Addr{}
	}
	return own
}
