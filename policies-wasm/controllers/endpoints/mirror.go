package endpoints

import (
	"sort"
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
	p := &slicePlan{Request: r, out: &out}
	p.labelsOf = p.mirrored
	if !p.wanted() {
		p.removeOthers(nil)
		return out, nil
	}
	families := []string{"IPv4", "IPv6"}
	for _, family := range families {
		groups := newGroups()
		var all []string
		p.write = func(j *json.Writer, at int) { j.Value(all[at]) }
		for _, subset := range r.Parent.Field("subsets").Items() {
			ports := portsIn(subset.Object("ports"))
			for _, list := range [...]string{"addresses", "notReadyAddresses"} {
				for _, address := range subset.Object(list).Items() {
					if ip := address.String("ip", ""); strings.Contains(ip, ":") == (family == "IPv6") {
						key := ip + "/" + address.Object("targetRef").String("uid", "")
						groups.add(ports, wantedEndpoint{key, len(all)})
						all = append(all, mirroredEndpoint(address, ip, list == "addresses"))
					}
				}
			}
		}
		p.settleFamily(family, groups)
	}
	p.removeOthers(families)
	return out, nil
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

func mirroredEndpoint(c sdk.Config, ip string, ready bool) string {
	j := (&json.Writer{}).Open('{').Key("addresses").Open('[').Text(ip).Close(']')
	j.Key("conditions").Open('{').Key("ready").Bool(ready).Close('}').Member("hostname", c.String("hostname", ""))
	if ref := c.Object("targetRef"); !ref.IsNull() {
		j.Key("targetRef").Value(ref.JSON())
	}
	return string(j.Member("nodeName", c.String("nodeName", "")).Close('}').Bytes())
}

// mirrored are the labels of a mirrored slice.
func (p *slicePlan) mirrored(o *reconcile.Object) string {
	want := map[string]string{serviceName: p.Parent.Name, managedBy: "endpointslicemirroring-controller.k8s.io"}
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
