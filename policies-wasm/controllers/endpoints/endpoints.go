package endpoints

import (
	"sort"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// maxAddresses is how many an Endpoints object has at most; what is beyond is
// left out, and said so in an annotation.
const (
	maxAddresses = 1000
	overCapacity = "endpoints.kubernetes.io/over-capacity"
)

func init() {
	sdk.Controller("Endpoints", legacy{}, serviceKind,
		[]reconcile.Kind{{
			APIVersion: "v1", Kind: "Endpoints", By: abi.ByName, Fields: []string{"subsets"}, Writes: []string{"create", "patch"},
		}},
		sdk.Related(podKind),
		sdk.Describe("Keeps the Endpoints object of each Service that selects pods, for clients that do not read EndpointSlices."))
}

type legacy struct{}

func (legacy) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	s := read(r)
	if s == nil {
		return out, nil
	}
	var have *reconcile.Object
	for _, one := range r.ChildrenOf("Endpoints") {
		have = one
	}
	subsets, truncated := s.subsets()
	labels := s.labels(have, "endpoints.kubernetes.io/managed-by", "endpoint-controller")
	if have == nil {
		out.Create = []reconcile.Creation{{Object: s.whole(subsets, labels, truncated), Count: 1}}
		return out, nil
	}
	if have.Controller() == "" && have.Deleted == 0 {
		out.Adopt = []string{have.UID}
	}
	_, was := have.Annotations.Get(overCapacity)
	same := have.Field("subsets").JSON() == subsets || have.JSON("subsets") == "" && subsets == "[]"
	if same && labels == "" && was == truncated {
		return out, nil
	}
	out.Patch = []reconcile.Patch{{UID: have.UID, Patch: changed(subsets, labels, truncated, was)}}
	return out, nil
}

// whole is a new Endpoints object.
func (s *service) whole(subsets, labels string, truncated bool) string {
	j := (&json.Writer{}).Open('{').Key("apiVersion").Text("v1").Key("kind").Text("Endpoints")
	j.Key("metadata").Open('{').Key("name").Text(s.name).Key("labels").Value(labels)
	if truncated {
		j.Key("annotations").Open('{').Key(overCapacity).Text("truncated").Close('}')
	}
	return string(j.Close('}').Key("subsets").Value(subsets).Close('}').Bytes())
}

// changed is a patch of one; was says whether it said that it is truncated.
func changed(subsets, labels string, truncated, was bool) string {
	j := (&json.Writer{}).Open('{').Key("metadata").Open('{')
	if labels != "" {
		j.Key("labels").Value(labels)
	}
	switch {
	case truncated && !was:
		j.Key("annotations").Open('{').Key(overCapacity).Text("truncated").Close('}')
	case was && !truncated:
		j.Key("annotations").Open('{').Key(overCapacity).Value("null").Close('}')
	}
	return string(j.Close('}').Key("subsets").Value(subsets).Close('}').Bytes())
}

// subset are the addresses that serve the same ports.
type subset struct{ ready, notReady []*endpoint }

// subsets are the Service's, as JSON, with addresses and ports in a fixed order.
func (s *service) subsets() (list string, truncated bool) {
	groups := map[string]*subset{}
	var order []string
	all, left := s.endpoints(), maxAddresses
	// Those that are ready come first when not all have room.
	sort.SliceStable(all, func(i, j int) bool { return all[i].ready && !all[j].ready })
	for i := range all {
		e := &all[i]
		if e.terminates && !s.publishNotReady || e.address(s.families[0]) == "" {
			continue
		}
		ports := s.portList(e)
		if ports == "" && len(s.ports) > 0 {
			continue
		}
		if left == 0 {
			truncated = true
			break
		}
		left--
		g := groups[ports]
		if g == nil {
			g = &subset{}
			groups[ports] = g
			order = append(order, ports)
		}
		if e.ready {
			g.ready = append(g.ready, e)
		} else {
			g.notReady = append(g.notReady, e)
		}
	}
	sort.Strings(order)
	j := (&json.Writer{}).Open('[')
	for _, ports := range order {
		j.Open('{')
		s.addresses(j, "addresses", groups[ports].ready)
		s.addresses(j, "notReadyAddresses", groups[ports].notReady)
		if ports != "" {
			j.Key("ports").Value(ports)
		}
		j.Close('}')
	}
	return string(j.Close(']').Bytes()), truncated
}

func (s *service) addresses(j *json.Writer, key string, list []*endpoint) {
	if len(list) == 0 {
		return
	}
	sort.Slice(list, func(a, b int) bool {
		if x, y := list[a].address(s.families[0]), list[b].address(s.families[0]); x != y {
			return x < y
		}
		return list[a].UID < list[b].UID
	})
	j.Key(key).Open('[')
	for _, e := range list {
		j.Open('{').Key("ip").Text(e.address(s.families[0])).Member("hostname", e.hostname).Member("nodeName", e.node)
		e.targetRef(j)
		j.Close('}')
	}
	j.Close(']')
}

// portList are the ports that the endpoint serves, as JSON; "" if there are none.
func (s *service) portList(e *endpoint) string {
	j, found := (&json.Writer{}).Open('['), false
	ports := append([]servicePort(nil), s.ports...)
	sort.Slice(ports, func(a, b int) bool { return ports[a].name < ports[b].name })
	for i := range ports {
		p := &ports[i]
		if at := e.port(p); at != 0 {
			j.Open('{').Member("name", p.name).Key("port").Int(at).Key("protocol").Text(p.protocol).Member("appProtocol", p.appProtocol).Close('}')
			found = true
		}
	}
	if !found {
		return ""
	}
	return string(j.Close(']').Bytes())
}
