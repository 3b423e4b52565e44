package endpoints

import (
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

func init() {
	sdk.Controller("EndpointSliceMirror", mirror{},
		reconcile.Kind{APIVersion: "v1", Kind: "Endpoints", Fields: []string{"subsets"}},
		[]reconcile.Kind{{
			APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice", Fields: []string{"addressType", "ports", "endpoints"},
			Writes: []string{"create", "patch", "delete"},
		}},
		sdk.Related(reconcile.Kind{APIVersion: "v1", Kind: "Service", By: abi.ByName, Fields: []string{"spec.selector"}}),
		sdk.Describe("Shows Endpoints that users wrote themselves as EndpointSlices."))
}

type mirror struct{}

// An annotation and a label that say that Endpoints are not to be mirrored.
const (
	leader     = "control-plane.alpha.kubernetes.io/leader"
	skipMirror = "endpointslice.kubernetes.io/skip-mirror"
)

func (mirror) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	p := &slicePlan{Request: r, out: &out, manager: "endpointslicemirroring-controller.k8s.io"}
	p.labelsOf, p.annotationsOf = p.mirrored, p.annotated
	if !p.wanted() {
		p.removeOthers(nil)
		return out, nil
	}
	families := []string{"IPv4", "IPv6"}
	subsets := p.repacked()
	for _, family := range families {
		groups := newGroups()
		var all []*address
		p.write = func(j *json.Writer, at int) { all[at].endpoint(j) }
		for _, one := range subsets {
			for _, a := range one.list {
				if strings.Contains(a.ip, ":") == (family == "IPv6") {
					groups.add(one.ports, wantedEndpoint{a.key, len(all)})
					all = append(all, a)
				}
			}
		}
		p.settleFamily(family, groups)
	}
	p.removeOthers(families)
	return out, nil
}

// address is one of the Endpoints, as it serves some ports.
type address struct {
	sdk.Config
	key, ip string
	ready   bool
}

// repackedSubset are the addresses that serve the same ports, as JSON by name.
type repackedSubset struct {
	ports string
	list  []*address
}

// repacked are the subsets as Kubernetes puts them together: ports that the same
// addresses serve, the ready ones first. Where an address is told to be both, it is
// not ready.
func (p *slicePlan) repacked() (all []*repackedSubset) {
	byPort, ports := map[string][]*address{}, map[string]sdk.Config{}
	var order []string
	for _, subset := range p.Parent.Field("subsets").Items() {
		list := subset.Object("ports").Items()
		if len(list) == 0 {
			list = []sdk.Config{{}} // addresses without ports are endpoints too
		}
		for _, port := range list {
			name := port.JSON()
			if _, known := ports[name]; !known {
				order, ports[name] = append(order, name), port
			}
			byPort[name] = with(with(byPort[name], subset.Object("addresses"), true), subset.Object("notReadyAddresses"), false)
		}
	}
	together, portsOf := map[string]*repackedSubset{}, map[string][]sdk.Config{}
	for _, name := range order {
		list := byPort[name]
		sort.Sort(readyFirst(list))
		who := ""
		for _, a := range list {
			who += a.key + map[bool]string{true: "+ ", false: "- "}[a.ready]
		}
		if len(list) == 0 {
			continue
		}
		if together[who] == nil {
			together[who] = &repackedSubset{list: p.within(list)}
			all = append(all, together[who])
		}
		if !ports[name].IsNull() {
			portsOf[who] = append(portsOf[who], ports[name])
		}
		together[who].ports = portsJSON(portsOf[who])
	}
	return all
}

// with puts addresses into a list.
func with(list []*address, more sdk.Config, ready bool) []*address {
next:
	for _, c := range more.Items() {
		ip := c.String("ip", "")
		key := ip + "/" + c.Object("targetRef").String("uid", "")
		for _, a := range list {
			if a.key == key {
				a.ready = a.ready && ready
				continue next
			}
		}
		list = append(list, &address{c, key, ip, ready})
	}
	return list
}

type readyFirst []*address

func (r readyFirst) Len() int      { return len(r) }
func (r readyFirst) Swap(i, j int) { r[i], r[j] = r[j], r[i] }

func (r readyFirst) Less(i, j int) bool {
	if r[i].ready != r[j].ready {
		return r[i].ready
	}
	return r[i].key < r[j].key
}

// within leaves out the addresses that are too many, and tells of them.
func (p *slicePlan) within(list []*address) []*address {
	if len(list) > maxAddresses {
		p.out.Events = append(p.out.Events, reconcile.Event{
			Type: "Warning", Reason: "TooManyAddressesToMirror",
			Message: "A max of " + strconv.Itoa(maxAddresses) + " addresses can be mirrored to EndpointSlices per Endpoints subset. " +
				strconv.Itoa(len(list)-maxAddresses) + " addresses were skipped",
		})
		list = list[:maxAddresses]
	}
	return list
}

// wanted tells whether the Endpoints are of a Service without a selector.
func (p *slicePlan) wanted() bool {
	if skip, _ := p.Parent.Labels.Get(skipMirror); skip == "true" || p.Parent.Deleted != 0 {
		return false
	}
	if _, elected := p.Parent.Annotations.Get(leader); elected {
		return false
	}
	for _, s := range p.RelatedOf("Service") {
		return len(s.Field("spec.selector").Keys()) == 0
	}
	return false
}

// endpoint is one as JSON.
func (a *address) endpoint(j *json.Writer) {
	j.Open('{').Key("addresses").Open('[').Text(a.ip).Close(']')
	j.Key("conditions").Open('{').Key("ready").Bool(a.ready).Close('}').Member("hostname", a.String("hostname", ""))
	if ref := a.Object("targetRef"); !ref.IsNull() {
		j.Key("targetRef").Value(ref.JSON())
	}
	j.Member("nodeName", a.String("nodeName", "")).Close('}')
}

// mirrored are the labels of a mirrored slice.
func (p *slicePlan) mirrored(o *reconcile.Object) string {
	want := map[string]string{serviceName: p.Parent.Name, managedBy: p.manager}
	keys := []string{serviceName, managedBy}
	for i := range p.Parent.Labels.Len() {
		key, value := p.Parent.Labels.At(i)
		if _, own := want[key]; !own {
			keys, want[key] = append(keys, key), value
		}
	}
	sort.Strings(keys)
	return labelPatch(o, keys, want)
}

// Annotations that are of the Endpoints alone.
const (
	changedAt   = "endpoints.kubernetes.io/last-change-trigger-time"
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
)

// annotated are the annotations of a mirrored slice.
func (p *slicePlan) annotated(o *reconcile.Object) string {
	var keys []string
	want := map[string]string{}
	for i := range p.Parent.Annotations.Len() {
		if key, value := p.Parent.Annotations.At(i); key != changedAt && key != lastApplied {
			keys, want[key] = append(keys, key), value
		}
	}
	sort.Strings(keys)
	if o == nil {
		return patchOf(nil, keys, want)
	}
	return patchOf(&o.Annotations, keys, want)
}
