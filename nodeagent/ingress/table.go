package ingress

import (
	"cmp"
	"net"
	"slices"
	"strings"

	networkingv1 "k8s.io/api/networking/v1"
)

// Target is the Service that a request is for, and the port of it by name or number.
type Target struct {
	Namespace, Service string
	Port               networkingv1.ServiceBackendPort
}

// Table says whose requests are.
//
// A rule for the very host goes before one with a wildcard, and that before one for
// any host. Of several paths the longest goes first, and an exact one before a
// prefix. Where no rule fits, default backends are asked: of the Ingresses that name
// the host, and then of all others. What two Ingresses want both, the older has.
type Table struct {
	hosts map[string]*paths
	any   paths
	// certificates are the names of Secrets by host.
	certificates map[string]Secret
	// fallback is shown where no host fits; an Ingress may name none.
	fallback *Secret
}

// Secret names one.
type Secret struct{ Namespace, Name string }

// paths are those of one host, in the order in which they are tried.
type paths struct {
	rules    []rule
	standard []*Target // default backends
}

type rule struct {
	path   string // without the slash at the end, unless it is exact
	exact  bool
	target *Target
}

// NewTable makes the table of some Ingresses, in any order.
func NewTable(all []*networkingv1.Ingress) *Table {
	t := &Table{hosts: map[string]*paths{}, certificates: map[string]Secret{}}
	all = slices.Clone(all)
	slices.SortFunc(all, older)
	for _, i := range all {
		t.add(i)
	}
	// Those that have nothing but a default backend mean it for all.
	for _, only := range []bool{true, false} {
		for _, i := range all {
			if target := targetOf(i.Namespace, i.Spec.DefaultBackend); target != nil && (len(i.Spec.Rules) == 0) == only {
				t.any.standard = append(t.any.standard, target)
			}
		}
	}
	t.any.sort()
	for _, p := range t.hosts {
		p.sort()
	}
	return t
}

func older(a, b *networkingv1.Ingress) int {
	return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
}

func (t *Table) add(i *networkingv1.Ingress) {
	for r := range i.Spec.Rules {
		host := strings.ToLower(i.Spec.Rules[r].Host)
		p := t.of(host)
		if standard := targetOf(i.Namespace, i.Spec.DefaultBackend); standard != nil && host != "" {
			p.standard = append(p.standard, standard)
		}
		if http := i.Spec.Rules[r].HTTP; http != nil {
			for n := range http.Paths {
				p.rules = append(p.rules, ruleOf(i.Namespace, &http.Paths[n]))
			}
		}
	}
	for _, tls := range i.Spec.TLS {
		t.certify(Secret{i.Namespace, tls.SecretName}, tls.Hosts)
	}
}

func (t *Table) of(host string) *paths {
	if host == "" {
		return &t.any
	}
	if t.hosts[host] == nil {
		t.hosts[host] = &paths{}
	}
	return t.hosts[host]
}

func (t *Table) certify(s Secret, hosts []string) {
	if s.Name == "" {
		return
	}
	if len(hosts) == 0 && t.fallback == nil {
		t.fallback = &s
	}
	for _, host := range hosts {
		if host = strings.ToLower(host); t.certificates[host] == (Secret{}) {
			t.certificates[host] = s
		}
	}
}

// targetOf is nil where there is no Service to send to.
func targetOf(namespace string, b *networkingv1.IngressBackend) *Target {
	if b == nil {
		return nil
	}
	if b.Service == nil { // a resource: nobody here knows how to ask one
		return &Target{Namespace: namespace}
	}
	return &Target{Namespace: namespace, Service: b.Service.Name, Port: b.Service.Port}
}

// ruleOf takes a path whose type is left to the implementation for a prefix.
func ruleOf(namespace string, p *networkingv1.HTTPIngressPath) rule {
	r := rule{path: p.Path, target: targetOf(namespace, &p.Backend)}
	if p.PathType != nil && *p.PathType == networkingv1.PathTypeExact {
		r.exact = true
		return r
	}
	r.path = strings.TrimSuffix(r.path, "/")
	return r
}

// sort keeps the order of age among equals.
func (p *paths) sort() {
	slices.SortStableFunc(p.rules, func(a, b rule) int {
		if by := cmp.Compare(len(strings.TrimSuffix(b.path, "/")), len(strings.TrimSuffix(a.path, "/"))); by != 0 || a.exact == b.exact {
			return by
		}
		if a.exact {
			return -1
		}
		return 1
	})
}

// Route says where a request goes: by its Host, which may have a port, and by its
// path. It is nil where no rule fits.
func (t *Table) Route(host, path string) *Target {
	path = resolved(path)
	places := t.places(host)
	for _, p := range places {
		for i := range p.rules {
			if p.rules[i].fits(path) {
				return p.rules[i].target
			}
		}
	}
	for _, p := range places {
		if len(p.standard) > 0 {
			return p.standard[0]
		}
	}
	return nil
}

// places are the paths for a host, the most particular first.
func (t *Table) places(host string) []*paths {
	host = plain(host)
	var out []*paths
	for _, name := range []string{host, wildcard(host)} {
		if p := t.hosts[name]; p != nil {
			out = append(out, p)
		}
	}
	return append(out, &t.any)
}

// Certificate is the Secret for a host that a client of TLS names, perhaps "".
func (t *Table) Certificate(host string) (Secret, bool) {
	host = plain(host)
	for _, name := range []string{host, wildcard(host)} {
		if s, ok := t.certificates[name]; ok {
			return s, true
		}
	}
	if t.fallback != nil {
		return *t.fallback, true
	}
	return Secret{}, false
}

// secrets are all that hold certificates.
func (t *Table) secrets() map[Secret]bool {
	all := map[Secret]bool{}
	for _, s := range t.certificates {
		all[s] = true
	}
	if t.fallback != nil {
		all[*t.fallback] = true
	}
	return all
}

// plain is a host without its port, in lower case, without the dot at its end.
func plain(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}

// wildcard is the one that has a host, which covers one label.
func wildcard(host string) string {
	if label, rest, ok := strings.Cut(host, "."); ok && label != "" && net.ParseIP(host) == nil {
		return "*." + rest
	}
	return ""
}

func (r *rule) fits(path string) bool {
	if r.exact {
		return path == r.path
	}
	rest, ok := strings.CutPrefix(path, r.path)
	return ok && (rest == "" || rest[0] == '/')
}

// resolved is a path as a backend may read it, without elements . and .. in it: or
// a client would reach by a prefix of its own what lies behind another.
func resolved(path string) string {
	if !strings.Contains(path, "/.") {
		return path
	}
	var out []string
	elements := strings.Split(strings.TrimPrefix(path, "/"), "/")
	for i, e := range elements {
		last := i == len(elements)-1
		switch e {
		case ".", "..":
			if e == ".." && len(out) > 0 {
				out = out[:len(out)-1]
			}
			if last {
				out = append(out, "")
			}
		default:
			out = append(out, e)
		}
	}
	return "/" + strings.Join(out, "/")
}
