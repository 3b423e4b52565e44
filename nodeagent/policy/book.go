package policy

import (
	"cmp"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// Book keeps what policies come to, and what changed of it. It belongs to one
// goroutine.
type Book struct {
	pods       map[string]*entry
	namespaces map[string]*namespace
	selections map[forward.Set]*selection
	wide       map[*selection]bool // those of more than one namespace
	allowed    map[string]*allowed
	at         map[netip.Addr]*entry // this node's, by address
	serial     uint64

	sets  map[forward.Set]*changed
	dirty map[netip.Addr]bool
}

// namespace is what is known of one, even of one that is not there yet.
type namespace struct {
	labels     labels.Set // nil: not there
	pods       map[string]*entry
	policies   map[string]*policy
	selections map[*selection]bool
}

// entry is a pod, with the selections that it is in.
type entry struct {
	Pod
	local   bool
	in      map[*selection][]forward.Member
	ingress *allowed
	egress  *allowed
}

// allowed is shared by the pods that the same policies select.
type allowed struct {
	forward.Allowed
	key        string
	by         int
	selections []*selection
}

// changed is what is different in a set: who is in it now, or is not any more.
type changed struct {
	anew bool
	now  map[forward.Member]bool
}

// NewBook gives an empty one.
func NewBook() *Book {
	return &Book{
		pods: map[string]*entry{}, namespaces: map[string]*namespace{}, selections: map[forward.Set]*selection{}, wide: map[*selection]bool{},
		allowed: map[string]*allowed{}, at: map[netip.Addr]*entry{}, sets: map[forward.Set]*changed{}, dirty: map[netip.Addr]bool{},
	}
}

func (b *Book) namespace(name string) *namespace {
	if b.namespaces[name] == nil {
		b.namespaces[name] = &namespace{pods: map[string]*entry{}, policies: map[string]*policy{}, selections: map[*selection]bool{}}
	}
	return b.namespaces[name]
}

// forget drops a namespace of which nothing is known.
func (b *Book) forget(name string) {
	n := b.namespaces[name]
	if n != nil && n.labels == nil && len(n.pods)+len(n.policies)+len(n.selections) == 0 {
		delete(b.namespaces, name)
	}
}

// PutNamespace writes what labels a namespace has now; with there false, it is gone.
func (b *Book) PutNamespace(name string, has map[string]string, there bool) {
	n := b.namespace(name)
	var now labels.Set
	if there {
		now = labels.Set{}
		maps.Copy(now, has)
	}
	if (now == nil) == (n.labels == nil) && maps.Equal(now, n.labels) {
		b.forget(name)
		return
	}
	n.labels = now
	for _, e := range n.pods {
		for s := range b.wide {
			b.place(e, s)
		}
	}
	b.forget(name)
}

// Put writes what a pod is now; nil is that it is gone. This node's own are local,
// and those alone are isolated.
func (b *Book) Put(id string, p *Pod, local bool) {
	old := b.pods[id]
	if p == nil {
		b.remove(id, old)
		return
	}
	if old != nil && old.local == local && old.equal(p) {
		return
	}
	if old != nil && (old.Namespace != p.Namespace || old.local && !local) {
		b.remove(id, old)
		old = nil
	}
	e := old
	if e == nil {
		e = &entry{in: map[*selection][]forward.Member{}}
		b.pods[id] = e
		b.namespace(p.Namespace).pods[id] = e
	}
	was := e.IPs
	e.Pod, e.local = *p, local
	if local {
		b.own(e, was)
	}
	for s := range b.namespaces[p.Namespace].selections {
		b.place(e, s)
	}
	for s := range b.wide {
		b.place(e, s)
	}
	if local {
		b.isolate(e)
	}
}

// own notes whose this node's addresses are.
func (b *Book) own(e *entry, was []netip.Addr) {
	for _, a := range was {
		if b.at[a] == e && !slices.Contains(e.IPs, a) {
			delete(b.at, a)
			b.dirty[a] = true
		}
	}
	for _, a := range e.IPs {
		if b.at[a] != e {
			b.at[a] = e
			b.dirty[a] = true
		}
	}
}

func (b *Book) remove(id string, e *entry) {
	if e == nil {
		return
	}
	for s := range e.in {
		b.move(s, e.in[s], nil)
	}
	was := e.IPs
	e.IPs = nil
	b.own(e, was)
	b.release(e.ingress)
	b.release(e.egress)
	delete(b.pods, id)
	delete(b.namespaces[e.Namespace].pods, id)
	b.forget(e.Namespace)
}

// place puts a pod into a selection, or takes it out.
func (b *Book) place(e *entry, s *selection) {
	now := s.of(&e.Pod, b.namespaces[e.Namespace].labels)
	b.move(s, e.in[s], now)
	if len(now) == 0 {
		delete(e.in, s)
	} else {
		e.in[s] = now
	}
}

// move makes members of a selection others.
func (b *Book) move(s *selection, was, now []forward.Member) {
	if slices.Equal(was, now) {
		return
	}
	for _, m := range now {
		if s.members[m]++; s.members[m] == 1 {
			b.note(s.name, m, true)
		}
	}
	for _, m := range was {
		if s.members[m]--; s.members[m] == 0 {
			delete(s.members, m)
			b.note(s.name, m, false)
		}
	}
}

func (b *Book) note(set forward.Set, m forward.Member, there bool) {
	c := b.sets[set]
	if c == nil {
		c = &changed{now: map[forward.Member]bool{}}
		b.sets[set] = c
	}
	if _, back := c.now[m]; back { // as it was
		delete(c.now, m)
		return
	}
	c.now[m] = there
}

// PutPolicy writes what a policy is now; nil is that it is gone.
func (b *Book) PutPolicy(name types.NamespacedName, p *networkingv1.NetworkPolicy) {
	n := b.namespace(name.Namespace)
	old := n.policies[name.Name]
	if p == nil {
		delete(n.policies, name.Name)
	} else {
		b.serial++
		n.policies[name.Name] = read(p, b.serial)
	}
	for _, e := range n.pods {
		if e.local && (old.selects(&e.Pod) || n.policies[name.Name].selects(&e.Pod)) {
			b.isolate(e)
		}
	}
	b.forget(name.Namespace)
}

func (p *policy) selects(pod *Pod) bool { return p != nil && p.pods.Matches(labels.Set(pod.Labels)) }

// isolate works out what a pod may do.
func (b *Book) isolate(e *entry) {
	var ingress, egress []*policy
	for _, p := range b.namespaces[e.Namespace].policies {
		if !p.selects(&e.Pod) {
			continue
		}
		if p.ingress != nil {
			ingress = append(ingress, p)
		}
		if p.egress != nil {
			egress = append(egress, p)
		}
	}
	wasIn, wasOut := e.ingress, e.egress
	e.ingress = b.allow("ingress", ingress, e.Ports)
	e.egress = b.allow("egress", egress, nil)
	b.release(wasIn)
	b.release(wasOut)
	if wasIn != e.ingress || wasOut != e.egress {
		for _, a := range e.IPs {
			b.dirty[a] = true
		}
	}
}

// allow gives what some policies allow; nil if there are none, and so everything.
// Ports are those by which names in ingress rules are numbers.
func (b *Book) allow(way string, policies []*policy, ports []Port) *allowed {
	if len(policies) == 0 {
		return nil
	}
	slices.SortFunc(policies, func(x, y *policy) int { return strings.Compare(x.name.Name, y.name.Name) })
	key, named := way, false
	for _, p := range policies {
		key += fmt.Sprintf(" %d", p.serial)
		named = named || way == "ingress" && p.ingress.named
	}
	if named {
		key += fmt.Sprint(ports)
	}
	out := b.allowed[key]
	if out == nil {
		out = &allowed{key: key}
		b.allowed[key] = out
		for _, p := range policies {
			if way == "ingress" {
				b.ingress(out, p.ingress, &Pod{Ports: ports})
			} else {
				b.egress(out, p.egress)
			}
		}
	}
	out.by++
	return out
}

func (b *Book) ingress(out *allowed, d *direction, pod *Pod) {
	for i := range d.rules {
		r := &d.rules[i]
		ports := slices.Clone(r.ports)
		for _, n := range r.names {
			for _, number := range pod.numbers(n.name, n.protocol) {
				ports = append(ports, forward.Ports{Protocol: n.protocol, First: number, Last: number})
			}
		}
		if r.anyPort || len(ports) > 0 {
			b.peers(out, r, ports)
		}
	}
}

func (b *Book) egress(out *allowed, d *direction) {
	for i := range d.rules {
		r := &d.rules[i]
		if r.anyPort || len(r.ports) > 0 {
			b.peers(out, r, slices.Clone(r.ports))
		}
		for j := range r.names {
			if r.everybody {
				b.add(out, forward.Allow{Named: true, Set: b.selected(out, everyPod, &r.names[j], nil)})
			}
			if len(r.ranges) > 0 {
				b.add(out, forward.Allow{Named: true, Set: b.selected(out, everyPod, &r.names[j], r.ranges)})
			}
			for _, p := range r.peers {
				b.add(out, forward.Allow{Named: true, Set: b.selected(out, p, &r.names[j], nil)})
			}
		}
	}
}

// peers adds what a rule says of ports that have numbers.
func (b *Book) peers(out *allowed, r *rule, ports []forward.Ports) {
	slices.SortFunc(ports, func(x, y forward.Ports) int {
		return cmp.Or(cmp.Compare(x.Protocol, y.Protocol), cmp.Compare(x.First, y.First), cmp.Compare(x.Last, y.Last))
	})
	ports = slices.Compact(ports)
	if r.everybody {
		b.add(out, forward.Allow{Everybody: true, Ports: ports})
	}
	if len(r.ranges) > 0 {
		b.add(out, forward.Allow{Ranges: r.ranges, Ports: ports})
	}
	for _, p := range r.peers {
		b.add(out, forward.Allow{Set: b.selected(out, p, nil, nil), Ports: ports})
	}
}

func (b *Book) add(out *allowed, a forward.Allow) {
	if !slices.ContainsFunc(out.List, func(has forward.Allow) bool { return same(has, a) }) {
		out.List = append(out.List, a)
	}
}

func same(a, b forward.Allow) bool {
	return a.Everybody == b.Everybody && a.Set == b.Set && a.Named == b.Named && slices.Equal(a.Ranges, b.Ranges) && slices.Equal(a.Ports, b.Ports)
}

// selected gives the set of a selection, and fills it if nobody needed it before.
func (b *Book) selected(by *allowed, p peer, port *portName, ranges []forward.Range) forward.Set {
	name := setOf(p, port, ranges)
	s := b.selections[name]
	if s == nil {
		s = &selection{name: name, peer: p, port: port, ranges: ranges, members: map[forward.Member]int{}}
		b.selections[name] = s
		b.sets[name] = &changed{anew: true, now: map[forward.Member]bool{}}
		if p.namespaces == nil {
			b.namespace(p.namespace).selections[s] = true
			for _, e := range b.namespaces[p.namespace].pods {
				b.place(e, s)
			}
		} else {
			b.wide[s] = true
			for _, e := range b.pods {
				b.place(e, s)
			}
		}
	}
	s.by++
	by.selections = append(by.selections, s)
	return name
}

// release drops what no pod has any more.
func (b *Book) release(a *allowed) {
	if a == nil {
		return
	}
	if a.by--; a.by > 0 {
		return
	}
	delete(b.allowed, a.key)
	for _, s := range a.selections {
		if s.by--; s.by > 0 {
			continue
		}
		delete(b.selections, s.name)
		delete(b.wide, s)
		if s.namespaces == nil {
			delete(b.namespaces[s.namespace].selections, s)
			b.forget(s.namespace)
		}
		for _, e := range b.members(s) {
			delete(e.in, s)
		}
		b.sets[s.name] = &changed{anew: true, now: map[forward.Member]bool{}}
	}
}

// members are the pods that may be in a selection.
func (b *Book) members(s *selection) map[string]*entry {
	if s.namespaces == nil {
		if n := b.namespaces[s.namespace]; n != nil {
			return n.pods
		}
		return nil
	}
	return b.pods
}

// Change gives what is different since it was asked last.
func (b *Book) Change() forward.Filter {
	out := forward.Filter{Pods: map[netip.Addr]*forward.Isolation{}, Sets: map[forward.Set]forward.SetChange{}}
	for a := range b.dirty {
		out.Pods[a] = b.at[a].isolation()
	}
	for name, c := range b.sets {
		change := forward.SetChange{Anew: c.anew}
		for m, there := range c.now {
			if there {
				change.Join = append(change.Join, m)
			} else {
				change.Leave = append(change.Leave, m)
			}
		}
		if c.anew || len(c.now) > 0 {
			out.Sets[name] = change
		}
	}
	clear(b.dirty)
	clear(b.sets)
	return out
}

// isolation is nil for a pod that no policy selects.
func (e *entry) isolation() *forward.Isolation {
	if e == nil || e.ingress == nil && e.egress == nil {
		return nil
	}
	out := &forward.Isolation{}
	if e.ingress != nil {
		out.Ingress = &e.ingress.Allowed
	}
	if e.egress != nil {
		out.Egress = &e.egress.Allowed
	}
	return out
}

// Len is how many addresses of this node's pods are isolated, and how many sets
// that takes.
func (b *Book) Len() (isolated, sets int) {
	for _, e := range b.at {
		if e.isolation() != nil {
			isolated++
		}
	}
	return isolated, len(b.selections)
}

// Selecting names the policies that isolate a pod in each direction.
func (b *Book) Selecting(id string) (ingress, egress []string) {
	e := b.pods[id]
	if e == nil {
		return nil, nil
	}
	for _, p := range b.namespaces[e.Namespace].policies {
		if !p.selects(&e.Pod) {
			continue
		}
		if p.ingress != nil {
			ingress = append(ingress, p.name.Name)
		}
		if p.egress != nil {
			egress = append(egress, p.name.Name)
		}
	}
	slices.SortFunc(ingress, strings.Compare)
	slices.SortFunc(egress, strings.Compare)
	return ingress, egress
}
