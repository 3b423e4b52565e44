package spread

import (
	"slices"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
)

// maxMemo is how many kinds of pods have their selector remembered; a power of two.
const maxMemo = 1024

// Owners knows which services select a pod, and which controller made it.
type Owners struct {
	syms *facts.Symbols
	// services by namespace; controllers by resource, namespace and name.
	services    map[facts.Symbol][]*facts.Object
	controllers map[controller]facts.Selector
	version     uint64 // from 1: that of an empty memo is 0
	memos       []memo // by their hashes, and no map: see placed.tallies
	// withControllers is false for those who look at services alone.
	withControllers bool
	kinds           [3]kind
}

type controller struct {
	resource        facts.Resource
	namespace, name facts.Symbol
}

// kind is a kind of controller whose selector counts.
type kind struct {
	version, kind facts.Symbol
	resource      facts.Resource
}

type memo struct {
	namespace facts.Symbol
	labels    []facts.Pair
	owner     controller
	version   uint64
	selector  facts.Selector
}

// NewOwners makes an Owners that looks at services, and at controllers if so asked.
func NewOwners(syms *facts.Symbols, controllers bool) *Owners {
	core, apps := syms.Intern("v1"), syms.Intern("apps/v1")
	return &Owners{
		syms: syms, withControllers: controllers, version: 1, memos: make([]memo, maxMemo),
		services: map[facts.Symbol][]*facts.Object{}, controllers: map[controller]facts.Selector{},
		kinds: [3]kind{
			{core, syms.Intern("ReplicationController"), facts.ResourceReplicationControllers},
			{apps, syms.Intern("ReplicaSet"), facts.ResourceReplicaSets},
			{apps, syms.Intern("StatefulSet"), facts.ResourceStatefulSets},
		},
	}
}

// ObjectChanged takes in a service or a controller.
func (o *Owners) ObjectChanged(obj *facts.Object) {
	if obj.Resource == facts.ResourceServices {
		o.service(obj, true)
		return
	}
	key := controller{obj.Resource, obj.Namespace, obj.Name}
	if old, ok := o.controllers[key]; ok && same(old, obj.Selector) {
		return
	}
	o.controllers[key] = obj.Selector
	o.version++
}

// ObjectRemoved forgets one.
func (o *Owners) ObjectRemoved(obj *facts.Object) {
	if obj.Resource == facts.ResourceServices {
		o.service(obj, false)
		return
	}
	delete(o.controllers, controller{obj.Resource, obj.Namespace, obj.Name})
	o.version++
}

func (o *Owners) service(obj *facts.Object, there bool) {
	list := o.services[obj.Namespace]
	at := slices.IndexFunc(list, func(s *facts.Object) bool { return s.Name == obj.Name })
	if at >= 0 && there && same(list[at].Selector, obj.Selector) {
		return
	}
	if at >= 0 {
		list = slices.Delete(list, at, at+1)
	}
	if there && obj.Selector.Present {
		list = append(list, obj)
	}
	o.services[obj.Namespace] = list
	if len(list) == 0 {
		delete(o.services, obj.Namespace)
	}
	o.version++
}

func same(a, b facts.Selector) bool {
	return a.Present == b.Present && slices.EqualFunc(a.Reqs, b.Reqs, func(x, y facts.Requirement) bool {
		return x.Key == y.Key && x.Op == y.Op && slices.Equal(x.Values, y.Values)
	})
}

// Selector is what the pod's services and its controller select by, together.
// One without requirements says that there are none. It is valid until the
// next change.
func (o *Owners) Selector(pod *sdk.Pod) facts.Selector {
	owner := o.ownerOf(pod)
	if len(o.services[pod.Namespace]) == 0 && owner.resource == facts.ResourceOther {
		return facts.Selector{}
	}
	m := o.memo(pod, owner)
	if m.version == o.version && m.namespace == pod.Namespace && m.owner == owner && slices.Equal(m.labels, pod.Labels.Pairs) {
		return m.selector
	}
	m.version, m.namespace, m.owner = o.version, pod.Namespace, owner
	m.labels = append(m.labels[:0], pod.Labels.Pairs...)
	m.selector = o.merge(pod, owner)
	return m.selector
}

// memo is where the answer for such a pod is, or goes.
func (o *Owners) memo(pod *sdk.Pod, owner controller) *memo {
	h := uint64(pod.Namespace)<<32 ^ uint64(owner.name)
	for _, p := range pod.Labels.Pairs {
		h = (h*1099511628211^uint64(p.Key))*1099511628211 ^ uint64(p.Value)
	}
	return &o.memos[h%maxMemo]
}

func (o *Owners) ownerOf(pod *sdk.Pod) controller {
	if !o.withControllers {
		return controller{}
	}
	for i := range pod.Owners {
		r := &pod.Owners[i]
		if !r.Controller {
			continue
		}
		for _, k := range o.kinds {
			if k.version == r.APIVersion && k.kind == r.Kind {
				return controller{k.resource, pod.Namespace, r.Name}
			}
		}
		break
	}
	return controller{}
}

// merge joins the requirements. Those that several ask for stand once.
func (o *Owners) merge(pod *sdk.Pod, owner controller) facts.Selector {
	out := facts.Selector{Present: true}
	for _, s := range o.services[pod.Namespace] {
		if s.Selector.Matches(o.syms, pod.Labels.Pairs) {
			out.Reqs = add(out.Reqs, s.Selector.Reqs)
		}
	}
	switch more := o.controllers[owner].Reqs; owner.resource {
	case facts.ResourceOther:
	case facts.ResourceReplicationControllers:
		// As in kube-scheduler, what a replication controller asks of a label
		// replaces what services ask of it.
		out.Reqs = slices.DeleteFunc(out.Reqs, func(r facts.Requirement) bool {
			return slices.ContainsFunc(more, func(m facts.Requirement) bool { return m.Key == r.Key })
		})
		fallthrough
	default:
		out.Reqs = add(out.Reqs, more)
	}
	return out
}

func add(to, more []facts.Requirement) []facts.Requirement {
	for _, r := range more {
		if !slices.ContainsFunc(to, func(h facts.Requirement) bool {
			return h.Key == r.Key && h.Op == r.Op && slices.Equal(h.Values, r.Values)
		}) {
			to = append(to, r)
		}
	}
	return to
}
