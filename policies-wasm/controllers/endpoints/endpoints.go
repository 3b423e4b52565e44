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

// subset are the addresses that serve some ports.
type subset struct {
	ports           []string // JSON
	ready, notReady []*endpoint
	// who tells one list of addresses from another.
	who []byte
}

func (g *subset) add(e *endpoint) {
	g.who = append(append(g.who, e.UID...), ' ')
	if e.ready {
		g.ready = append(g.ready, e)
	} else {
		g.notReady = append(g.notReady, e)
	}
}

// subsets are the Service's, as JSON: of each port who serves it, and the ports
// together that the same do, with addresses and ports in a fixed order.
func (s *service) subsets() (list string, truncated bool) {
	byPort, truncated := s.byPort()
	together := map[string]*subset{}
	var order []*subset
	for _, port := range sortedKeys(byPort) {
		one := byPort[port]
		g := together[string(one.who)]
		if g == nil {
			g = one
			together[string(one.who)] = g
			order = append(order, g)
		}
		g.ports = append(g.ports, port)
	}
	j := (&json.Writer{}).Open('[')
	for _, g := range order {
		j.Open('{')
		s.addresses(j, "addresses", g.ready)
		s.addresses(j, "notReadyAddresses", g.notReady)
		if g.ports[0] != "" {
			j.Key("ports").Open('[')
			for _, port := range g.ports {
				j.Value(port)
			}
			j.Close(']')
		}
		j.Close('}')
	}
	return string(j.Close(']').Bytes()), truncated
}

func sortedKeys(m map[string]*subset) []string {
	keys := make([]string, 0, len(m))
	for key := range m {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}

// byPort finds who serves each port, as JSON; "" is for a Service without ports.
func (s *service) byPort() (found map[string]*subset, truncated bool) {
	found = map[string]*subset{}
	all, left := s.endpoints(), maxAddresses
	// Those that are ready come first when not all have room.
	sort.SliceStable(all, func(i, j int) bool { return all[i].ready && !all[j].ready })
	for i := range all {
		e := &all[i]
		if e.terminates && !s.publishNotReady || e.address(s.families[0]) == "" {
			continue
		}
		ports := s.portList(e)
		if len(ports) > 0 && left == 0 {
			return found, true
		}
		for _, port := range ports {
			if found[port] == nil {
				found[port] = &subset{}
			}
			found[port].add(e)
		}
		left -= min(len(ports), 1)
	}
	return found, false
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

// portList are the ports that the endpoint serves, each as JSON.
func (s *service) portList(e *endpoint) (list []string) {
	if len(s.ports) == 0 {
		return []string{""}
	}
	for i := range s.ports {
		p := &s.ports[i]
		if at := e.port(p); at != 0 {
			j := (&json.Writer{}).Open('{').Member("name", p.name).Key("port").Int(at).Key("protocol").Text(p.protocol)
			list = append(list, string(j.Member("appProtocol", p.appProtocol).Close('}').Bytes()))
		}
	}
	return list
}
