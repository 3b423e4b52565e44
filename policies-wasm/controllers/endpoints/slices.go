package endpoints

import (
	"sort"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// maxEndpoints is how many endpoints a slice has at most.
const maxEndpoints = 100

func init() {
	sdk.Controller("EndpointSlice", sliced{}, serviceKind,
		[]reconcile.Kind{{
			APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Fields: []string{"addressType", "ports", "endpoints"},
			Writes: []string{"create", "patch", "delete"},
		}},
		sdk.Related(podKind),
		sdk.Describe("Keeps EndpointSlices of the pods that each Service selects."))
}

type sliced struct{}

func (sliced) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	s := read(r)
	if s == nil {
		return out, nil
	}
	p := &slicePlan{Request: r, out: &out, manager: "endpointslice-controller.k8s.io"}
	p.labelsOf = func(o *reconcile.Object) string { return s.labels(o, serviceName, s.name, managedBy, p.manager) }
	all := s.endpoints()
	for _, family := range s.families {
		groups := newGroups()
		for i := range all {
			if e := &all[i]; e.address(family) != "" {
				groups.add(s.slicePorts(e), wantedEndpoint{e.UID, i})
			}
		}
		p.write = func(j *json.Writer, at int) { s.endpoint(j, &all[at], family) }
		if p.settleFamily(family, groups) == 0 {
			p.placeholder(family, groups)
		}
	}
	p.removeOthers(s.families)
	return out, nil
}

const (
	serviceName = "kubernetes.io/service-name"
	managedBy   = "endpointslice.kubernetes.io/managed-by"
)

// owns tells whether a slice is the parent's, and no other manager looks after it.
func (p *slicePlan) owns(o *reconcile.Object) bool {
	manager, named := o.Labels.Get(managedBy)
	return o.Controller() == p.Parent.UID && (!named || manager == p.manager)
}

// removeOthers takes away the slices of families that the Service has not.
func (p *slicePlan) removeOthers(families []string) {
	for _, one := range p.ChildrenOf("EndpointSlice") {
		if family, _ := one.Field("addressType").Text(); p.owns(one) && !has(families, family) {
			p.remove(one)
		}
	}
}

func first(list []sdk.Config) sdk.Config {
	if len(list) == 0 {
		return sdk.Config{}
	}
	return list[0]
}

func has(list []string, text string) bool {
	for _, one := range list {
		if one == text {
			return true
		}
	}
	return false
}

// slicePlan brings the parent's slices to what is wanted.
type slicePlan struct {
	*reconcile.Request
	out *reconcile.Result
	// manager is who looks after the slices, by their label managedBy.
	manager string
	// labelsOf is JSON that makes a slice's labels what they are to be, "" if they
	// are; all of them for nil.
	labelsOf func(o *reconcile.Object) string
	// annotationsOf is the same of its annotations; nil leaves them.
	annotationsOf func(o *reconcile.Object) string
	// write writes a wanted endpoint: they are JSON for a moment only, since
	// thousands of texts would be much for a collector to go through.
	write   func(j *json.Writer, at int)
	scratch json.Writer
}

// group are the endpoints with the same ports, which share slices.
type group struct {
	ports  string // JSON
	wanted []wantedEndpoint
	slices []*slice
}

// wantedEndpoint is one by what tells it from others, and its place among all.
type wantedEndpoint struct {
	key string
	at  int
}

// slice is one that is there, and what it is to hold.
type slice struct {
	*reconcile.Object
	endpoints []wantedEndpoint
	changed   bool
}

// groups are those of one family, by their ports as JSON.
type groups struct {
	by    map[string]*group
	order []string
}

func newGroups() *groups { return &groups{by: map[string]*group{}} }

func (g *groups) in(ports string) *group {
	if g.by[ports] == nil {
		g.by[ports] = &group{ports: ports}
		g.order = append(g.order, ports)
	}
	return g.by[ports]
}

func (g *groups) add(ports string, e wantedEndpoint) {
	one := g.in(ports)
	one.wanted = append(one.wanted, e)
}

// settleFamily brings all slices of a family to what is wanted, and returns how
// many there are then.
func (p *slicePlan) settleFamily(family string, g *groups) (kept int) {
	for _, one := range p.ChildrenOf("EndpointSlice") {
		of, _ := one.Field("addressType").Text()
		if of != family || !p.owns(one) || one.Deleted != 0 {
			continue
		}
		in := g.in(portsIn(one.Field("ports")))
		in.slices = append(in.slices, &slice{Object: one})
	}
	for _, ports := range g.order {
		kept += p.settle(family, g.by[ports])
	}
	return kept
}

// slicePorts are the Service's ports as the pod serves them, as JSON by name.
func (s *service) slicePorts(e *endpoint) string {
	own := e.JSON(abi.FactPodPorts)
	if ports, ok := s.portsOf[own]; ok {
		return ports
	}
	ports := s.portsAt(e)
	if s.portsOf == nil {
		s.portsOf = map[string]string{}
	}
	s.portsOf[own] = ports
	return ports
}

func (s *service) portsAt(e *endpoint) string {
	type one struct {
		port *servicePort
		at   int64
	}
	var found []one
	for i := range s.ports {
		if at := e.port(&s.ports[i]); at != 0 {
			found = append(found, one{&s.ports[i], at})
		}
	}
	sort.Slice(found, func(i, j int) bool { return found[i].port.name < found[j].port.name })
	j := (&json.Writer{}).Open('[')
	for _, f := range found {
		j.Open('{').Key("name").Text(f.port.name).Key("protocol").Text(f.port.protocol).Key("port").Int(f.at)
		j.Member("appProtocol", f.port.appProtocol).Close('}')
	}
	return string(j.Close(']').Bytes())
}

// portsIn are a slice's ports in the same form.
func portsIn(c sdk.Config) string { return portsJSON(c.Items()) }

func portsJSON(ports []sdk.Config) string {
	sort.Slice(ports, func(i, j int) bool { return ports[i].String("name", "") < ports[j].String("name", "") })
	j := (&json.Writer{}).Open('[')
	for _, p := range ports {
		at, _ := p.Object("port").Number()
		j.Open('{').Key("name").Text(p.String("name", "")).Key("protocol").Text(p.String("protocol", "TCP")).Key("port").Int(int64(at))
		j.Member("appProtocol", p.String("appProtocol", "")).Close('}')
	}
	return string(j.Close(']').Bytes())
}

// endpoint is one as JSON, its members in the order of the API's.
func (s *service) endpoint(j *json.Writer, e *endpoint, family string) {
	j.Open('{').Key("addresses").Open('[')
	for _, ip := range e.ips {
		if isOf(ip, family) {
			j.Text(ip)
		}
	}
	j.Close(']').Key("conditions").Open('{').Key("ready").Bool(e.ready).Key("serving").Bool(e.serving).Key("terminating").Bool(e.terminates).Close('}')
	j.Member("hostname", e.hostname)
	e.targetRef(j)
	j.Member("nodeName", e.node).Member("zone", e.zone)
	s.hints(j, e)
	j.Close('}')
}

// hints say for whom a ready endpoint is meant.
func (s *service) hints(j *json.Writer, e *endpoint) {
	toNode := s.distribution == "PreferSameNode" && e.node != ""
	if s.distribution == "" || !e.ready || e.zone == "" && !toNode {
		return
	}
	j.Key("hints").Open('{')
	if e.zone != "" {
		j.Key("forZones").Open('[').Open('{').Key("name").Text(e.zone).Close('}').Close(']')
	}
	if toNode {
		j.Key("forNodes").Open('[').Open('{').Key("name").Text(e.node).Close('}').Close(']')
	}
	j.Close('}')
}

// settle brings the slices of a group to what is wanted, with as few of them
// written as can be, and returns how many there are then.
func (p *slicePlan) settle(family string, g *group) int {
	missing := make(map[string]wantedEndpoint, len(g.wanted))
	for _, w := range g.wanted {
		missing[w.key] = w
	}
	for _, s := range g.slices {
		p.keep(s, missing)
	}
	var rest []wantedEndpoint
	for _, w := range g.wanted {
		if _, ok := missing[w.key]; ok {
			rest = append(rest, w)
		}
	}
	rest = g.fill(rest)
	kept := 0
	for _, s := range g.slices {
		if len(s.endpoints) == 0 {
			p.remove(s.Object)
			continue
		}
		p.patch(s)
		kept++
	}
	for len(rest) > 0 {
		n := min(len(rest), maxEndpoints)
		p.create(family, g.ports, rest[:n])
		rest = rest[n:]
		kept++
	}
	return kept
}

// keep takes what the slice holds and is still wanted from the missing.
func (p *slicePlan) keep(s *slice, missing map[string]wantedEndpoint) {
	for _, e := range s.Field("endpoints").All {
		w, ok := missing[keyOf(e)]
		if !ok {
			s.changed = true
			continue
		}
		delete(missing, w.key)
		p.write(p.scratch.Reset(), w.at)
		s.changed = s.changed || string(p.scratch.Bytes()) != e.JSON()
		s.endpoints = append(s.endpoints, w)
	}
}

// keyOf tells an endpoint of a slice from others, as its wantedEndpoint does.
func keyOf(e sdk.Config) string {
	key := e.Object("targetRef").String("uid", "")
	if e.Object("conditions").Has("serving") {
		return key
	}
	ip, _ := first(e.Object("addresses").Items()).Text() // a mirrored one
	return ip + "/" + key
}

// fill puts endpoints where slices are written anyway, then where all the rest
// has room.
func (g *group) fill(rest []wantedEndpoint) []wantedEndpoint {
	for _, s := range g.slices {
		if s.changed && len(rest) > 0 {
			rest = s.take(rest)
		}
	}
	for _, s := range g.slices {
		if len(rest) > 0 && len(s.endpoints)+len(rest) <= maxEndpoints {
			rest = s.take(rest)
		}
	}
	return rest
}

func (s *slice) take(rest []wantedEndpoint) []wantedEndpoint {
	n := min(maxEndpoints-len(s.endpoints), len(rest))
	s.endpoints = append(s.endpoints, rest[:n]...)
	s.changed = s.changed || n > 0
	return rest[n:]
}

// placeholder keeps one slice without endpoints, so that the Service is seen to
// have none.
func (p *slicePlan) placeholder(family string, groups *groups) {
	if g := groups.by["[]"]; g != nil && len(g.slices) > 0 {
		first := g.slices[0]
		for i := range p.out.Delete {
			if p.out.Delete[i].UID == first.UID {
				p.out.Delete = append(p.out.Delete[:i], p.out.Delete[i+1:]...)
				break
			}
		}
		p.patch(first)
		return
	}
	p.create(family, "[]", nil)
}

func (p *slicePlan) remove(o *reconcile.Object) {
	p.out.Delete = append(p.out.Delete, reconcile.Deletion{UID: o.UID, Quiet: true})
}

// patch changes a slice, if anything of it has to be other than it is.
func (p *slicePlan) patch(s *slice) {
	labels, annotations := p.labelsOf(s.Object), p.annotations(s.Object)
	if !s.changed && labels+annotations == "" {
		return
	}
	j := (&json.Writer{}).Open('{')
	if labels+annotations != "" {
		j.Key("metadata").Open('{')
		metadata(j, labels, annotations)
		j.Close('}')
	}
	if s.changed {
		p.list(j, s.endpoints)
	}
	p.out.Patch = append(p.out.Patch, reconcile.Patch{UID: s.UID, Patch: string(j.Close('}').Bytes())})
}

func (p *slicePlan) annotations(o *reconcile.Object) string {
	if p.annotationsOf == nil {
		return ""
	}
	return p.annotationsOf(o)
}

func metadata(j *json.Writer, labels, annotations string) {
	if labels != "" {
		j.Key("labels").Value(labels)
	}
	if annotations != "" {
		j.Key("annotations").Value(annotations)
	}
}

func (p *slicePlan) create(family, ports string, endpoints []wantedEndpoint) {
	j := (&json.Writer{}).Open('{').Key("apiVersion").Text("discovery.k8s.io/v1").Key("kind").Text("EndpointSlice")
	j.Key("metadata").Open('{').Key("generateName").Text(p.Parent.Name + "-")
	metadata(j, p.labelsOf(nil), p.annotations(nil))
	j.Close('}').Key("addressType").Text(family).Key("ports").Value(ports)
	p.list(j, endpoints)
	p.out.Create = append(p.out.Create, reconcile.Creation{Object: string(j.Close('}').Bytes()), Count: 1, Quiet: true})
}

func (p *slicePlan) list(j *json.Writer, endpoints []wantedEndpoint) {
	j.Key("endpoints").Open('[')
	for _, e := range endpoints {
		p.write(j, e.at)
	}
	j.Close(']')
}
