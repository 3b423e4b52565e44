// Package endpoints says who answers for each Service: as EndpointSlices, and as
// the older Endpoints.
package endpoints

import (
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

var serviceKind = reconcile.Kind{APIVersion: "v1", Kind: "Service", Fields: []string{
	"spec.selector", "spec.ports", "spec.clusterIP", "spec.ipFamilies", "spec.type", "spec.publishNotReadyAddresses",
	"spec.trafficDistribution",
}}

var podKind = reconcile.Kind{
	APIVersion: "v1", Kind: "Pod", By: abi.BySelector,
	Facts: []string{abi.FactPod, abi.FactNodeZone, abi.FactPodPorts},
}

// service is the parent, read once.
type service struct {
	*reconcile.Request
	name, clusterIP, distribution string
	families                      []string
	ports                         []servicePort
	publishNotReady               bool
	// portsOf are the ports that pods serve, as JSON, by the ports that they have.
	portsOf map[string]string
}

type servicePort struct{ name, protocol, appProtocol, target string }

// read is nil for Services whose endpoints are not worked out: those without a
// selector, and names of others.
func read(r *reconcile.Request) *service {
	kind, _ := r.Parent.Field("spec.type").Text()
	if len(r.Parent.Field("spec.selector").Keys()) == 0 || kind == "ExternalName" || r.Parent.Deleted != 0 {
		return nil
	}
	s := &service{Request: r, name: r.Parent.Name}
	s.clusterIP, _ = r.Parent.Field("spec.clusterIP").Text()
	s.distribution, _ = r.Parent.Field("spec.trafficDistribution").Text()
	s.publishNotReady = r.Parent.JSON("spec.publishNotReadyAddresses") == "true"
	for _, f := range r.Parent.Field("spec.ipFamilies").Items() {
		text, _ := f.Text()
		s.families = append(s.families, text)
	}
	if len(s.families) == 0 {
		s.families = []string{"IPv4"}
	}
	for _, p := range r.Parent.Field("spec.ports").Items() {
		port := servicePort{
			name: p.String("name", ""), protocol: p.String("protocol", "TCP"), appProtocol: p.String("appProtocol", ""),
			target: p.String("targetPort", ""),
		}
		if port.target == "" {
			port.target = number(p.Object("targetPort"))
		}
		if port.target == "" || port.target == "0" {
			port.target = number(p.Object("port"))
		}
		s.ports = append(s.ports, port)
	}
	return s
}

func number(c sdk.Config) string {
	n, ok := c.Number()
	if !ok {
		return ""
	}
	return strconv.FormatInt(int64(n), 10)
}

func (s *service) headless() bool { return s.clusterIP == "" || s.clusterIP == "None" }

// endpoint is a pod that answers for the Service.
type endpoint struct {
	*reconcile.Object
	ips                        []string
	node, zone, hostname       string
	ready, serving, terminates bool
}

// endpoints are the Service's pods that have an address and have not ended, by
// name.
func (s *service) endpoints() []endpoint {
	pods := s.RelatedOf("Pod")
	all := make([]endpoint, 0, len(pods))
	for _, pod := range pods {
		facts := &pod.Pod
		if facts.Phase == "Succeeded" || facts.Phase == "Failed" || len(facts.IPs) == 0 {
			continue
		}
		e := endpoint{Object: pod, ips: facts.IPs, node: facts.NodeName, serving: facts.Ready, terminates: pod.Deleted != 0}
		e.ready = s.publishNotReady || e.serving && !e.terminates
		e.zone, _ = pod.Field(abi.FactNodeZone).Text()
		if facts.Subdomain == s.name {
			e.hostname = facts.Hostname
		}
		all = append(all, e)
	}
	sort.Slice(all, func(i, j int) bool { return all[i].Name < all[j].Name })
	return all
}

// isOf tells whether an address is of the family.
func isOf(ip, family string) bool { return strings.Contains(ip, ":") == (family == "IPv6") }

// address is the first of a family, "" if there is none.
func (e *endpoint) address(family string) string {
	for _, ip := range e.ips {
		if isOf(ip, family) {
			return ip
		}
	}
	return ""
}

// port is where the pod serves one of the Service's ports, 0 where it does not.
func (e *endpoint) port(p *servicePort) int64 {
	if n, err := strconv.ParseInt(p.target, 10, 32); err == nil {
		return n
	}
	n, _ := e.Field(abi.FactPodPorts).Object(p.target + "/" + p.protocol).Number()
	return int64(n)
}

func (e *endpoint) targetRef(j *json.Writer) {
	j.Key("targetRef").Open('{').Key("kind").Text("Pod").Member("namespace", e.Namespace).Member("name", e.Name).Member("uid", e.UID).Close('}')
}

// labels makes an object's labels those of the Service and the controller's own.
func (s *service) labels(of *reconcile.Object, own ...string) string {
	reserved := func(key string) bool {
		if key == headlessLabel {
			return true
		}
		for i := 0; i < len(own); i += 2 {
			if own[i] == key {
				return true
			}
		}
		return false
	}
	want := map[string]string{}
	var keys []string
	add := func(key, value string) {
		keys, want[key] = append(keys, key), value
	}
	for i := range s.Parent.Labels.Len() {
		if key, value := s.Parent.Labels.At(i); !reserved(key) {
			add(key, value)
		}
	}
	for i := 0; i < len(own); i += 2 {
		add(own[i], own[i+1])
	}
	if s.headless() {
		add(headlessLabel, "")
	}
	return labelPatch(of, keys, want)
}

// labelPatch is JSON that makes an object's labels these, "" if they are.
func labelPatch(of *reconcile.Object, keys []string, want map[string]string) string {
	if of == nil {
		return patchOf(nil, keys, want)
	}
	return patchOf(&of.Labels, keys, want)
}

// patchOf is the same of labels or annotations.
func patchOf(of *facts.Labels, keys []string, want map[string]string) string {
	j, changed := (&json.Writer{}).Open('{'), of == nil
	for _, key := range keys {
		if of != nil {
			if have, ok := of.Get(key); ok && have == want[key] {
				continue
			}
		}
		j.Key(key).Text(want[key])
		changed = true
	}
	for i := 0; of != nil && i < of.Len(); i++ {
		if key, _ := of.At(i); !wanted(want, key) {
			j.Key(key).Value("null")
			changed = true
		}
	}
	if !changed {
		return ""
	}
	return string(j.Close('}').Bytes())
}

func wanted(m map[string]string, key string) bool { _, ok := m[key]; return ok }

const headlessLabel = "service.kubernetes.io/headless"
