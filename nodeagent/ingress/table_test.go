package ingress

import (
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	exact  = networkingv1.PathTypeExact
	prefix = networkingv1.PathTypePrefix
	ours   = networkingv1.PathTypeImplementationSpecific
)

type path struct {
	kind networkingv1.PathType
	path string
	to   string
}

func ingress(name string) *networkingv1.Ingress {
	return &networkingv1.Ingress{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name, CreationTimestamp: metav1.NewTime(time.Unix(1, 0))}}
}

func backend(to string) networkingv1.IngressBackend {
	return networkingv1.IngressBackend{Service: &networkingv1.IngressServiceBackend{Name: to, Port: networkingv1.ServiceBackendPort{Number: 80}}}
}

func with(i *networkingv1.Ingress, host string, all ...path) *networkingv1.Ingress {
	r := networkingv1.IngressRule{Host: host}
	if len(all) > 0 {
		r.HTTP = &networkingv1.HTTPIngressRuleValue{}
	}
	for _, p := range all {
		r.HTTP.Paths = append(r.HTTP.Paths, networkingv1.HTTPIngressPath{Path: p.path, PathType: &p.kind, Backend: backend(p.to)})
	}
	i.Spec.Rules = append(i.Spec.Rules, r)
	return i
}

func standard(i *networkingv1.Ingress, to string) *networkingv1.Ingress {
	b := backend(to)
	i.Spec.DefaultBackend = &b
	return i
}

func to(t *Target) string {
	if t == nil {
		return ""
	}
	return t.Service
}

// TestPathsFitAsTheAPISays has the examples of Kubernetes' own documentation.
func TestPathsFitAsTheAPISays(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		paths []path
		asked string
		want  string
	}{
		{"a prefix of / fits all", []path{{prefix, "/", "a"}}, "/any/thing", "a"},
		{"an exact path fits itself", []path{{exact, "/foo", "a"}}, "/foo", "a"},
		{"an exact path fits no other", []path{{exact, "/foo", "a"}}, "/bar", ""},
		{"an exact path without a slash", []path{{exact, "/foo", "a"}}, "/foo/", ""},
		{"an exact path with a slash", []path{{exact, "/foo/", "a"}}, "/foo", ""},
		{"an exact path has its case", []path{{exact, "/foo", "a"}}, "/FOO", ""},
		{"a prefix fits itself", []path{{prefix, "/foo", "a"}}, "/foo", "a"},
		{"a prefix fits with a slash", []path{{prefix, "/foo", "a"}}, "/foo/", "a"},
		{"a prefix with a slash fits without", []path{{prefix, "/foo/", "a"}}, "/foo", "a"},
		{"a prefix with a slash fits with one", []path{{prefix, "/foo/", "a"}}, "/foo/", "a"},
		{"a prefix of half an element", []path{{prefix, "/aaa/bb", "a"}}, "/aaa/bbb", ""},
		{"a prefix fits what is below", []path{{prefix, "/aaa/bbb", "a"}}, "/aaa/bbb/ccc", "a"},
		{"a prefix is no part of a name", []path{{prefix, "/aaa/bbb", "a"}}, "/aaa/bbbxyz", ""},
		{"the longer prefix goes first", []path{{prefix, "/", "a"}, {prefix, "/aaa", "b"}}, "/aaa/ccc", "b"},
		{"and the shorter takes the rest", []path{{prefix, "/", "a"}, {prefix, "/aaa", "b"}}, "/ccc", "a"},
		{"the longest of three", []path{{prefix, "/", "a"}, {prefix, "/aaa", "b"}, {prefix, "/aaa/bbb", "c"}}, "/aaa/bbb", "c"},
		{"an exact path before an equal prefix", []path{{prefix, "/foo", "a"}, {exact, "/foo", "b"}}, "/foo", "b"},
		{"an equal prefix takes what is below", []path{{prefix, "/foo", "a"}, {exact, "/foo", "b"}}, "/foo/x", "a"},
		{"a slash at the end makes no path longer", []path{{prefix, "/foo/", "a"}, {exact, "/foo", "b"}}, "/foo", "b"},
		{"what is left to us is a prefix", []path{{ours, "/foo", "a"}}, "/foo/x", "a"},
		{"no path at all is a prefix of all", []path{{ours, "", "a"}}, "/foo", "a"},
		{"a way back leads to whom it ends at", []path{{prefix, "/open", "a"}, {prefix, "/closed", "b"}}, "/open/../closed/x", "b"},
		{"a way back beyond the root ends there", []path{{prefix, "/closed", "b"}}, "/../../closed", "b"},
		{"a dot is no element", []path{{exact, "/a/b", "a"}}, "/a/./b", "a"},
		{"a name with a dot is one", []path{{exact, "/.well-known/x", "a"}}, "/.well-known/x", "a"},
		{"a dot at the end leaves a slash", []path{{exact, "/a/", "a"}}, "/a/b/..", "a"},
	} {
		if got := to(NewTable([]*networkingv1.Ingress{with(ingress("i"), "", c.paths...)}).Route("h", c.asked)); got != c.want {
			t.Errorf("%s: %s goes to %q, want %q", c.name, c.asked, got, c.want)
		}
	}
}

func TestHostsFitAsTheAPISays(t *testing.T) {
	t.Parallel()
	table := NewTable([]*networkingv1.Ingress{
		with(with(with(ingress("i"), "*.foo.com", path{prefix, "/", "wild"}), "Bar.foo.com", path{prefix, "/x", "very"}), "", path{prefix, "/y", "all"}),
	})
	for _, c := range []struct{ host, path, want string }{
		{"bar.foo.com", "/x", "very"},
		{"BAR.FOO.COM:8080", "/x", "very"},
		{"bar.foo.com.", "/x", "very"},
		{"bar.foo.com", "/", "wild"}, // no path of the very host fits
		{"qux.foo.com", "/x", "wild"},
		{"baz.bar.foo.com", "/x", ""}, // a wildcard covers one label
		{"foo.com", "/x", ""},
		{".foo.com", "/x", ""},
		{"foo.com", "/y", "all"},
		{"", "/y", "all"},
		{"10.1.2.3", "/y", "all"},
		{"[::1]:80", "/y", "all"},
	} {
		if got := to(table.Route(c.host, c.path)); got != c.want {
			t.Errorf("%s%s goes to %q, want %q", c.host, c.path, got, c.want)
		}
	}
}

func TestDefaultBackendsTakeWhatNoRuleFits(t *testing.T) {
	t.Parallel()
	table := NewTable([]*networkingv1.Ingress{
		standard(with(ingress("a"), "a.com", path{prefix, "/x", "rule"}), "a-else"),
		standard(with(ingress("b"), "b.com"), "b-else"), // a rule without paths
		standard(ingress("c"), "all-else"),
		with(ingress("d"), "", path{prefix, "/any", "any"}),
	})
	for _, c := range []struct{ host, path, want string }{
		{"a.com", "/x", "rule"}, {"a.com", "/y", "a-else"}, {"b.com", "/", "b-else"}, {"c.com", "/", "all-else"}, {"a.com", "/any", "any"},
	} {
		if got := to(table.Route(c.host, c.path)); got != c.want {
			t.Errorf("%s%s goes to %q, want %q", c.host, c.path, got, c.want)
		}
	}
	if got := NewTable(nil).Route("a.com", "/"); got != nil {
		t.Errorf("nothing leads to %+v", got)
	}
}

func TestTheOlderIngressHasWhatTwoWant(t *testing.T) {
	t.Parallel()
	first, second := with(ingress("z"), "a.com", path{prefix, "/", "old"}), with(ingress("a"), "a.com", path{prefix, "/", "new"})
	second.CreationTimestamp = metav1.NewTime(time.Unix(2, 0))
	first.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.com"}, SecretName: "old"}}
	second.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.com"}, SecretName: "new"}}
	table := NewTable([]*networkingv1.Ingress{second, first})
	if got := to(table.Route("a.com", "/")); got != "old" {
		t.Errorf("the path is %q's", got)
	}
	if got, _ := table.Certificate("a.com"); got.Name != "old" {
		t.Errorf("the certificate is %q's", got.Name)
	}
}

func TestCertificatesAreFoundByTheNameThatIsAskedFor(t *testing.T) {
	t.Parallel()
	i := ingress("i")
	i.Spec.TLS = []networkingv1.IngressTLS{{Hosts: []string{"a.com", "*.A.com"}, SecretName: "a"}, {Hosts: []string{"b.a.com"}, SecretName: "b"}, {Hosts: []string{"c.com"}}}
	table := NewTable([]*networkingv1.Ingress{i})
	for host, want := range map[string]string{"a.com": "a", "x.a.com": "a", "B.a.com": "b", "x.y.a.com": "", "c.com": "", "": ""} {
		if got, ok := table.Certificate(host); got.Name != want || ok != (want != "") {
			t.Errorf("for %q there is %q, want %q", host, got.Name, want)
		}
	}
	i.Spec.TLS = append(i.Spec.TLS, networkingv1.IngressTLS{SecretName: "else"})
	table = NewTable([]*networkingv1.Ingress{i})
	for host, want := range map[string]string{"": "else", "d.com": "else", "a.com": "a"} {
		if got, _ := table.Certificate(host); got.Name != want {
			t.Errorf("for %q there is %q, want %q", host, got.Name, want)
		}
	}
}
