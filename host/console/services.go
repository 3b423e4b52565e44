package console

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/nodeagent/reach"
)

const (
	servicesResource = "services"
	slicesResource   = "endpointslices.discovery.k8s.io"
)

// serviceRow is a Service, as its list shows it.
type serviceRow struct {
	Namespace string   `json:"namespace"`
	Name      string   `json:"name"`
	Type      string   `json:"type"`
	Addresses []string `json:"addresses"`
	Ports     []string `json:"ports"`
	// Ready of its Endpoints answer.
	Ready     int `json:"ready"`
	Endpoints int `json:"endpoints"`
	// Without says why nobody has to answer: an alias, or no selector.
	Without string `json:"without,omitempty"`
}

func (r serviceRow) named() string { return r.Namespace + "/" + r.Name }

// servicePart is what one object, a Service or a slice of its endpoints, adds to a row.
type servicePart struct {
	row serviceRow
	// of names the service of a slice, family the kind of its addresses.
	of     string
	family discoveryv1.AddressType
}

func servicePartOf(_ string, o store.Object) servicePart {
	p := servicePart{row: serviceRow{Namespace: o.GetNamespace(), Name: o.GetName()}}
	switch o := o.(type) {
	case *v1.Service:
		p.row.Type, p.row.Addresses, p.row.Ports = string(o.Spec.Type), addressesOf(o), []string{}
		for _, port := range o.Spec.Ports {
			text := fmt.Sprintf("%d/%s", port.Port, cmp.Or(port.Protocol, v1.ProtocolTCP))
			if port.NodePort != 0 {
				text += fmt.Sprintf(", %d on nodes", port.NodePort)
			}
			p.row.Ports = append(p.row.Ports, text)
		}
		switch {
		case o.Spec.Type == v1.ServiceTypeExternalName:
			p.row.Without = "an alias of " + o.Spec.ExternalName
		case len(o.Spec.Selector) == 0:
			p.row.Without = "no selector: its EndpointSlices are somebody else's to make"
		}
	case *discoveryv1.EndpointSlice:
		p.of, p.family = o.Labels[discoveryv1.LabelServiceName], o.AddressType
		for _, e := range o.Endpoints {
			p.row.Endpoints++
			if e.Conditions.Ready == nil || *e.Conditions.Ready {
				p.row.Ready++
			}
		}
	}
	return p
}

func addressesOf(s *v1.Service) []string {
	all := slices.Clone(s.Spec.ClusterIPs)
	if len(all) == 0 && s.Spec.ClusterIP != "" {
		all = []string{s.Spec.ClusterIP}
	}
	all = append(all, s.Spec.ExternalIPs...)
	for _, ingress := range s.Status.LoadBalancer.Ingress {
		all = append(all, cmp.Or(ingress.IP, ingress.Hostname))
	}
	return all
}

// serviceSums puts slices' endpoints to their services. A pod of two families is in
// slices of each, so those of one family count: of which more are ready. Slices that a
// user may not list are in no sum.
func serviceSums(parts []servicePart) []serviceRow {
	at := map[string]int{}
	var rows []serviceRow
	for i := range parts {
		if parts[i].row.Type != "" {
			at[parts[i].row.named()] = len(rows)
			rows = append(rows, parts[i].row)
		}
	}
	type ofFamily struct {
		service int
		family  discoveryv1.AddressType
	}
	type sum struct{ ready, endpoints int }
	sums := map[ofFamily]sum{}
	for i := range parts {
		if parts[i].of == "" {
			continue
		}
		if n, ok := at[parts[i].row.Namespace+"/"+parts[i].of]; ok {
			of := ofFamily{n, parts[i].family}
			sums[of] = sum{sums[of].ready + parts[i].row.Ready, sums[of].endpoints + parts[i].row.Endpoints}
		}
	}
	for of, s := range sums {
		row := &rows[of.service]
		if s.ready > row.Ready || s.ready == row.Ready && s.endpoints > row.Endpoints {
			row.Ready, row.Endpoints = s.ready, s.endpoints
		}
	}
	return rows
}

// byAnswers has those first of which nobody answers.
func byAnswers(a, b serviceRow) int {
	silent := func(r serviceRow) int {
		if r.Ready == 0 && r.Without == "" {
			return 0
		}
		return 1
	}
	return cmp.Or(cmp.Compare(silent(a), silent(b)), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name))
}

// service answers GET /console/v1/service?namespace=&name=&node= with what a node
// does with connections to one, to who may get it and list its endpoints and pods.
func (c *Console) service(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	namespace, name, node := query.Get("namespace"), query.Get("name"), query.Get("node")
	who, _ := request.UserFrom(r.Context())
	rights := rights{r.Context(), who, c.May}
	needs := []question{
		{verb: "get", resource: servicesResource, namespace: namespace, name: name},
		{verb: "list", group: discoveryv1.GroupName, resource: "endpointslices", namespace: namespace},
		{verb: "list", resource: "pods", namespace: namespace},
	}
	for _, q := range needs {
		if !rights.may(q) {
			http.Error(w, fmt.Sprintf("%s may not see this: it needs to %s %s in the namespace %s", who.GetName(), q.verb, q.resource, namespace), http.StatusForbidden)
			return
		}
	}
	o, _ := c.Objects.Get(store.Key{Resource: servicesResource, Namespace: namespace, Name: name})
	svc, ok := o.(*v1.Service)
	if !ok {
		http.Error(w, fmt.Sprintf("there is no service %q in the namespace %q", name, namespace), http.StatusNotFound)
		return
	}
	selector := labels.SelectorFromSet(svc.Spec.Selector)
	of := listed[*discoveryv1.EndpointSlice](c.Objects, slicesResource, namespace, func(o store.Object) bool { return o.GetLabels()[discoveryv1.LabelServiceName] == name })
	pods := listed[*v1.Pod](c.Objects, "pods", namespace, func(o store.Object) bool {
		return len(svc.Spec.Selector) > 0 && selector.Matches(labels.Set(o.GetLabels()))
	})
	var nodes []*v1.Node
	if rights.may(question{verb: "list", resource: "nodes"}) {
		nodes = listed[*v1.Node](c.Objects, "nodes", "", nil)
	}
	answer(w, reach.OfService(svc, of, pods, reach.NodeOf(nodes, asNode(nodes, node))))
}

// asNode is the node whose rules are told: the one that was named, or the first that
// is ready.
func asNode(nodes []*v1.Node, name string) string {
	if name != "" {
		return name
	}
	for _, n := range nodes {
		if stateOf(n) == "ready" {
			return n.Name
		}
	}
	return ""
}

func listed[T store.Object](objects Objects, resource, namespace string, match func(store.Object) bool) (all []T) {
	list, err := objects.List(resource, namespace, store.ListOptions{Match: match})
	if err != nil {
		return nil // the newest revision can always be listed
	}
	for _, o := range list.Items {
		if one, ok := o.(T); ok {
			all = append(all, one)
		}
	}
	return all
}
