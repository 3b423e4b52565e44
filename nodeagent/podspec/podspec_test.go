package podspec

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

type objects struct{}

func (objects) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	if name != "cm" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
	}
	return &v1.ConfigMap{Data: map[string]string{"key": "from-map", "bad=name": "x", "0-odd.name": "odd"}}, nil
}

func (objects) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	if name != "s" {
		return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
	}
	return &v1.Secret{Data: map[string][]byte{"password": []byte("hush")}}, nil
}

func (objects) Services(ns string) ([]*v1.Service, error) {
	if ns == "default" {
		return []*v1.Service{service("default", "kubernetes", "10.0.0.1", v1.ServicePort{Name: "https", Port: 443})}, nil
	}
	return []*v1.Service{
		service(ns, "my-db", "10.0.0.9", v1.ServicePort{Port: 5432, Protocol: v1.ProtocolTCP}),
		service(ns, "headless", v1.ClusterIPNone, v1.ServicePort{Port: 1}),
	}, nil
}

func service(ns, name, ip string, ports ...v1.ServicePort) *v1.Service {
	return &v1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: name}, Spec: v1.ServiceSpec{ClusterIP: ip, Ports: ports}}
}

func parse(t *testing.T, text string) *v1.Pod {
	t.Helper()
	var p v1.Pod
	if err := yaml.UnmarshalStrict([]byte(text), &p); err != nil {
		t.Fatal(err)
	}
	return &p
}

func TestExpand(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"": "", "plain": "plain", "$(A)": "1", "x$(A)y$(B)": "x1y2", "$$(A)": "$(A)", "$(C)": "$(C)", "$(": "$(", "$": "$", "$A": "$A", "a$$b": "a$b", "$(A": "$(A",
	} {
		got := Expand(in, func(n string) (string, bool) {
			v, ok := map[string]string{"A": "1", "B": "2"}[n]
			return v, ok
		})
		if got != want {
			t.Errorf("Expand(%q) = %q, want %q", in, got, want)
		}
	}
}

func FuzzExpand(f *testing.F) {
	f.Add("$(A)$$(B")
	f.Fuzz(func(t *testing.T, s string) {
		if got := Expand(s, func(string) (string, bool) { return "", true }); len(got) > len(s) && utf8.ValidString(s) {
			t.Errorf("Expand(%q) grew to %q", s, got)
		}
	})
}

const full = `
metadata: {name: web, namespace: ns, uid: u, labels: {app: a}}
spec:
  nodeName: n1
  containers:
  - name: c
    envFrom:
    - {prefix: P_, configMapRef: {name: cm}}
    - {secretRef: {name: absent, optional: true}}
    resources: {limits: {memory: 1Gi}, requests: {cpu: 1500m}}
    env:
    - {name: PLAIN, value: "v-$(P_key)-$(MY_DB_SERVICE_HOST)"}
    - {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}
    - {name: APP, valueFrom: {fieldRef: {fieldPath: "metadata.labels['app']"}}}
    - {name: IP, valueFrom: {fieldRef: {fieldPath: status.podIP}}}
    - {name: CPU, valueFrom: {resourceFieldRef: {resource: requests.cpu}}}
    - {name: CPUM, valueFrom: {resourceFieldRef: {resource: requests.cpu, divisor: 1m}}}
    - {name: MEM, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}
    - {name: ALL, valueFrom: {resourceFieldRef: {resource: limits.cpu}}}
    - {name: PASS, valueFrom: {secretKeyRef: {name: s, key: password}}}
    - {name: NONE, valueFrom: {secretKeyRef: {name: s, key: nope, optional: true}}}
`

func TestEnv(t *testing.T) {
	t.Parallel()
	p := parse(t, full)
	got, err := Env(t.Context(), p, &p.Spec.Containers[0], []string{"PATH=/bin", "NAME=image", "HOSTNAME=image"}, objects{},
		Facts{PodIPs: []string{"10.1.1.1"}, Allocatable: v1.ResourceList{v1.ResourceCPU: resource.MustParse("4")}})
	if err != nil {
		t.Fatal(err)
	}
	env := map[string]string{}
	for _, kv := range got {
		if _, twice := env[kv.Name]; twice {
			t.Errorf("%s comes twice", kv.Name)
		}
		env[kv.Name] = kv.Value
	}
	want := map[string]string{
		"PATH": "/bin", "P_key": "from-map", "P_0-odd.name": "odd", "PLAIN": "v-from-map-10.0.0.9", "NAME": "web", "APP": "a", "IP": "10.1.1.1",
		"CPU": "2", "CPUM": "1500", "MEM": "1024", "ALL": "4", "PASS": "hush",
		"KUBERNETES_SERVICE_HOST": "10.0.0.1", "KUBERNETES_SERVICE_PORT": "443", "KUBERNETES_SERVICE_PORT_HTTPS": "443",
		"KUBERNETES_PORT": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP": "tcp://10.0.0.1:443", "KUBERNETES_PORT_443_TCP_PROTO": "tcp",
		"KUBERNETES_PORT_443_TCP_PORT": "443", "KUBERNETES_PORT_443_TCP_ADDR": "10.0.0.1",
		"MY_DB_SERVICE_HOST": "10.0.0.9", "MY_DB_SERVICE_PORT": "5432", "MY_DB_PORT": "tcp://10.0.0.9:5432", "MY_DB_PORT_5432_TCP": "tcp://10.0.0.9:5432",
		"MY_DB_PORT_5432_TCP_PROTO": "tcp", "MY_DB_PORT_5432_TCP_PORT": "5432", "MY_DB_PORT_5432_TCP_ADDR": "10.0.0.9",
	}
	if diff := cmp.Diff(want, env); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
}

func TestALimitThatIsNotSetIsThePodsOrTheNodes(t *testing.T) {
	t.Parallel()
	allocatable := v1.ResourceList{v1.ResourceCPU: resource.MustParse("4"), v1.ResourceMemory: resource.MustParse("8Gi"), v1.ResourceEphemeralStorage: resource.MustParse("9Gi"), "hugepages-2Mi": resource.MustParse("64Mi")}
	for name, test := range map[string]struct{ pod, container, field, want string }{
		"the container's own":         {"{cpu: 2}", "limits: {cpu: 1}", "limits.cpu", "1"},
		"the pod's":                   {"{cpu: 2}", "", "limits.cpu", "2"},
		"the pod's memory":            {"{memory: 1Gi}", "", "limits.memory", "1073741824"},
		"0, which is none":            {"{cpu: 2}", "limits: {cpu: 0}", "limits.cpu", "2"},
		"the node's memory":           {"{cpu: 2}", "", "limits.memory", "8589934592"},
		"the node's, of a pod with 0": {"{cpu: 0}", "", "limits.cpu", "4"},
		"the node's storage":          {"{cpu: 2}", "", "limits.ephemeral-storage", "9663676416"},
		"no request":                  {"{cpu: 2}", "", "requests.cpu", "0"},
		"no huge pages":               {"{cpu: 2}", "", "limits.hugepages-2Mi", "0"},
		"no huge pages of its own":    {"{hugepages-2Mi: 8Mi}", "", "limits.hugepages-2Mi", "0"},
		"huge pages":                  {"{cpu: 2}", "limits: {hugepages-2Mi: 4Mi}", "limits.hugepages-2Mi", "4194304"},
		"no request of huge pages":    {"{cpu: 2}", "", "requests.hugepages-2Mi", "0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, "spec: {resources: {limits: "+test.pod+"}, containers: [{name: c, resources: {"+test.container+"}}]}")
			got, err := Resource(p, &p.Spec.Containers[0], &v1.ResourceFieldSelector{Resource: test.field}, allocatable)
			if err != nil || got != test.want {
				t.Errorf("Resource(%s) = %q, %v, want %q", test.field, got, err, test.want)
			}
		})
	}
}

func TestEnvErrorsNameWhatIsMissing(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ env, want string }{
		"a secret": {"{name: A, valueFrom: {secretKeyRef: {name: gone, key: k}}}", `"gone" not found`},
		"a key":    {"{name: A, valueFrom: {configMapKeyRef: {name: cm, key: nope}}}", "couldn't find key nope in ConfigMap"},
		"a field":  {"{name: A, valueFrom: {fieldRef: {fieldPath: spec.nonsense}}}", "spec.nonsense"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, "metadata: {name: p}\nspec: {containers: [{name: c, env: ["+test.env+"]}]}")
			if _, err := Env(t.Context(), p, &p.Spec.Containers[0], nil, objects{}, Facts{}); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Env: %v, want %q", err, test.want)
			}
		})
	}
}

func TestArgs(t *testing.T) {
	t.Parallel()
	env := []runtime.EnvVar{{Name: "A", Value: "1"}}
	entry, cmd := []string{"/entry"}, []string{"dflt"}
	for name, test := range map[string]struct {
		command, args, want []string
	}{
		"nothing takes the image's":      {nil, nil, []string{"/entry", "dflt"}},
		"args replace the image's":       {nil, []string{"$(A)"}, []string{"/entry", "1"}},
		"command drops the image's args": {[]string{"/x", "$(A)"}, nil, []string{"/x", "1"}},
		"both":                           {[]string{"/x"}, []string{"y", "$(B)"}, []string{"/x", "y", "$(B)"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := Args(&v1.Container{Command: test.command, Args: test.args}, entry, cmd, env)
			if diff := cmp.Diff(test.want, got); err != nil || diff != "" {
				t.Errorf("Args: %v %s", err, diff)
			}
		})
	}
	if _, err := Args(&v1.Container{Name: "c"}, nil, nil, nil); err == nil {
		t.Errorf("a container without any command is accepted")
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string][2]string{
		"{}":                          {"p", ""},
		"{hostname: h}":               {"h", ""},
		"{hostname: h, subdomain: s}": {"h", "h.s.ns.svc.cluster.local"},
		"{subdomain: s, setHostnameAsFQDN: true}": {"p.s.ns.svc.cluster.local", "p.s.ns.svc.cluster.local"},
	} {
		p := parse(t, "metadata: {name: p, namespace: ns}\nspec: "+spec)
		kernel, fqdn, err := Names(p, "cluster.local")
		if err != nil || kernel != want[0] || fqdn != want[1] {
			t.Errorf("Names(%s) = %q, %q, %v; want %q", spec, kernel, fqdn, err, want)
		}
	}
	long := parse(t, "metadata: {name: "+strings.Repeat("a", 62)+"-x-y, namespace: ns}\nspec: {}")
	if got := Hostname(long); len(got) > 63 || strings.HasSuffix(got, "-") {
		t.Errorf("Hostname = %q", got)
	}
}

func TestHosts(t *testing.T) {
	t.Parallel()
	p := parse(t, "metadata: {name: p, namespace: ns}\nspec: {hostAliases: [{ip: 1.2.3.4, hostnames: [a, b]}]}")
	got := string(Hosts(p, []string{"10.0.0.5"}, "p.s.ns.svc.x", nil))
	for _, want := range []string{"127.0.0.1\tlocalhost\n", "10.0.0.5\tp.s.ns.svc.x\tp\n", "1.2.3.4\ta\tb\n"} {
		if !strings.Contains(got, want) {
			t.Errorf("hosts file lacks %q:\n%s", want, got)
		}
	}
	p.Spec.HostNetwork = true
	if got := string(Hosts(p, nil, "", []byte("9.9.9.9\tmachine\n"))); !strings.Contains(got, "9.9.9.9\tmachine\n") || !strings.Contains(got, "1.2.3.4") {
		t.Errorf("hosts file of the machine's network:\n%s", got)
	}
}

func TestResolvConf(t *testing.T) {
	t.Parallel()
	host := ParseResolvConf("# c\nnameserver 8.8.8.8\nsearch corp\noptions rotate\nnonsense\n")
	cluster := ClusterDNS{Servers: []string{"10.0.0.10"}, Domain: "cluster.local"}
	for spec, want := range map[string]string{
		"{dnsPolicy: ClusterFirst}":                               "search ns.svc.cluster.local svc.cluster.local cluster.local corp\nnameserver 10.0.0.10\noptions ndots:5\n",
		"{dnsPolicy: Default}":                                    "search corp\nnameserver 8.8.8.8\noptions rotate\n",
		"{dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true}": "search ns.svc.cluster.local svc.cluster.local cluster.local corp\nnameserver 10.0.0.10\noptions ndots:5\n",
		"{dnsPolicy: Default, hostNetwork: true}":                 "search corp\nnameserver 8.8.8.8\noptions rotate\n",
		"{dnsPolicy: ClusterFirst, hostNetwork: true}":            "search corp\nnameserver 8.8.8.8\noptions rotate\n",
		"{dnsPolicy: None, dnsConfig: {nameservers: [1.1.1.1], searches: [x], options: [{name: ndots, value: \"2\"}]}}":                    "search x\nnameserver 1.1.1.1\noptions ndots:2\n",
		"{dnsPolicy: ClusterFirst, dnsConfig: {nameservers: [10.0.0.10, 1.1.1.1], options: [{name: ndots, value: \"1\"}, {name: edns0}]}}": "search ns.svc.cluster.local svc.cluster.local cluster.local corp\nnameserver 10.0.0.10\nnameserver 1.1.1.1\noptions ndots:1 edns0\n",
	} {
		p := parse(t, "metadata: {namespace: ns}\nspec: "+spec)
		if got, _ := ResolvConf(p, host, cluster); got.String() != want {
			t.Errorf("ResolvConf(%s) =\n%swant\n%s", spec, got.String(), want)
		}
	}
	p := parse(t, "metadata: {namespace: ns}\nspec: {dnsPolicy: ClusterFirst}")
	p.Spec.HostNetwork, p.Spec.DNSPolicy = false, v1.DNSClusterFirst
	twice := host
	twice.Searches = []string{"corp", "cluster.local", strings.Repeat("x", 2000), "y.example.com"}
	dns, _ := ResolvConf(p, twice, cluster)
	if got := strings.Join(dns.Searches, " "); len(got) > 2048 || strings.Count(" "+got+" ", " cluster.local ") != 1 || strings.Contains(got, "y.example") {
		t.Errorf("ResolvConf searches %q: want each once, and 2048 characters at most", got)
	}
	if got, _ := ResolvConf(p, host, ClusterDNS{Domain: "cluster.local"}); len(got.Servers) != 1 || got.Servers[0] != "8.8.8.8" {
		t.Errorf("without cluster DNS: %v, want the machine's", got.Servers)
	}
}

func TestWhatAResolvConfLacksIsTold(t *testing.T) {
	t.Parallel()
	cluster := ClusterDNS{Servers: []string{"10.0.0.10", "10.0.0.11"}, Domain: "cluster.local"}
	var many []string
	for i := range 31 {
		many = append(many, fmt.Sprintf("s%d.example", i))
	}
	const missing = "MissingClusterDNS its node has no cluster DNS: in place of dnsPolicy %s it has the machine's servers, as by Default"
	for name, test := range map[string]struct {
		spec    string
		host    DNS
		cluster ClusterDNS
		want    []string
	}{
		"nothing": {"{dnsPolicy: ClusterFirst, dnsConfig: {nameservers: [1.1.1.1]}}", DNS{}, cluster, nil},
		"servers": {"{dnsPolicy: ClusterFirst, dnsConfig: {nameservers: [1.1.1.1, 1.1.1.2]}}", DNS{}, cluster,
			[]string{"DNSConfigForming a resolv.conf names at most 3 servers: left out are 1.1.1.2"}},
		"searches": {"{dnsPolicy: Default, dnsConfig: {searches: [a.example, b.example, c.example]}}", DNS{Searches: many}, cluster,
			[]string{"DNSConfigForming a resolv.conf searches at most 32 domains, of 2048 characters in all: left out are b.example, c.example"}},
		"searches of many characters": {"{dnsPolicy: Default}", DNS{Searches: []string{strings.Repeat("x", 2048), "y"}}, cluster,
			[]string{"DNSConfigForming a resolv.conf searches at most 32 domains, of 2048 characters in all: left out are y"}},
		"the cluster's DNS":                       {"{dnsPolicy: ClusterFirst}", DNS{}, ClusterDNS{}, []string{fmt.Sprintf(missing, "ClusterFirst")}},
		"the cluster's DNS, on the machine's net": {"{dnsPolicy: ClusterFirstWithHostNet, hostNetwork: true}", DNS{}, ClusterDNS{}, []string{fmt.Sprintf(missing, "ClusterFirstWithHostNet")}},
		"nothing that it asks for":                {"{dnsPolicy: ClusterFirst, hostNetwork: true}", DNS{}, ClusterDNS{}, nil},
		"nothing of its own":                      {"{dnsPolicy: None}", DNS{}, ClusterDNS{}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, lacks := ResolvConf(parse(t, "spec: "+test.spec), test.host, test.cluster)
			var got []string
			for _, l := range lacks {
				got = append(got, l.Reason+" "+l.Message)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("it lacks (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSearchesCluster(t *testing.T) {
	t.Parallel()
	for spec, want := range map[string]bool{
		"{dnsPolicy: ClusterFirst}": true,
		"{dnsPolicy: ClusterFirst, dnsConfig: {nameservers: [1.1.1.1], options: [{name: edns0}]}}": true,
		"{dnsPolicy: ClusterFirst, dnsConfig: {searches: [x]}}":                                    false,
		"{dnsPolicy: ClusterFirst, dnsConfig: {options: [{name: ndots, value: \"1\"}]}}":           false,
		"{dnsPolicy: Default}": false,
		"{dnsPolicy: None, dnsConfig: {nameservers: [10.0.0.10]}}": false,
	} {
		if got := SearchesCluster(parse(t, "spec: "+spec)); got != want {
			t.Errorf("SearchesCluster(%s) = %v, want %v", spec, got, want)
		}
	}
}

func TestSecurity(t *testing.T) {
	t.Parallel()
	p := parse(t, `
spec:
  securityContext: {runAsUser: 1000, runAsGroup: 7, fsGroup: 2000, supplementalGroups: [3000], seccompProfile: {type: RuntimeDefault}}
  containers:
  - {name: a}
  - {name: b, securityContext: {runAsUser: 5, allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: {add: [NET_ADMIN, CAP_SYS_TIME], drop: [all]}}}
  - {name: c, securityContext: {privileged: true}}
  - {name: d, securityContext: {seccompProfile: {type: Localhost, localhostProfile: a/b.json}}}`)
	get := func(i int) runtime.Security {
		s, err := Security(p, &p.Spec.Containers[i], "", "/seccomp")
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	a, b, c, d := get(0), get(1), get(2), get(3)
	if *a.RunAsUser != 1000 || *a.RunAsGroup != 7 || !cmp.Equal(a.SupplementalGroups, []int64{3000, 2000}) || a.Seccomp.Type != runtime.SeccompRuntimeDefault {
		t.Errorf("from the pod: %+v", a)
	}
	if *b.RunAsUser != 5 || !b.NoNewPrivileges || !b.ReadOnlyRootFS || !cmp.Equal(b.AddCapabilities, []string{"NET_ADMIN", "SYS_TIME"}) || !cmp.Equal(b.DropCapabilities, []string{"ALL"}) {
		t.Errorf("from the container: %+v", b)
	}
	if !c.Privileged || c.Seccomp.Type != runtime.SeccompUnconfined {
		t.Errorf("privileged: %+v", c)
	}
	if d.Seccomp.Path != "/seccomp/a/b.json" {
		t.Errorf("localhost profile: %+v", d.Seccomp)
	}
}

func TestNonRootIsVerified(t *testing.T) {
	t.Parallel()
	for user, ok := range map[string]bool{"": false, "0": false, "root": false, "1000": true, "1000:0": true, "app": false} {
		p := parse(t, "spec: {securityContext: {runAsNonRoot: true}, containers: [{name: c}]}")
		if _, err := Security(p, &p.Spec.Containers[0], user, ""); (err == nil) != ok {
			t.Errorf("image user %q: %v, want ok %v", user, err, ok)
		}
	}
	p := parse(t, "spec: {securityContext: {seccompProfile: {type: Localhost, localhostProfile: ../../etc/x}}, containers: [{name: c}]}")
	if _, err := Security(p, &p.Spec.Containers[0], "", "/seccomp"); err == nil {
		t.Errorf("a profile outside of its folder is accepted")
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	p := parse(t, `
spec:
  containers:
  - {name: a, resources: {requests: {cpu: 250m, memory: 1Gi}, limits: {cpu: 500m, memory: 2Gi}}}
  - {name: b}`)
	got := Limits(p, &p.Spec.Containers[0], 8<<30)
	want := runtime.Resources{CPUShares: 256, CPUQuota: 50_000, CPUPeriod: 100_000, MemoryLimit: 2 << 30, OOMScoreAdj: 875}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Limits: %s", diff)
	}
	if got := Limits(p, &p.Spec.Containers[1], 8<<30); got.CPUShares != 2 || got.CPUQuota != 0 || got.MemoryLimit != 0 || got.OOMScoreAdj != 999 {
		t.Errorf("without limits: %+v", got)
	}
	if got := PodLimits(p); got.MemoryLimit != 0 || got.CPUQuota != 0 || got.CPUShares != 256 {
		t.Errorf("a pod with an unlimited container: %+v", got)
	}
	p.Spec.Containers = p.Spec.Containers[:1]
	if got := PodLimits(p); got.MemoryLimit != 2<<30 || got.CPUQuota != 50_000 {
		t.Errorf("a limited pod: %+v", got)
	}
}

func TestSysctls(t *testing.T) {
	t.Parallel()
	p := parse(t, "spec: {securityContext: {sysctls: [{name: net.ipv4.tcp_syncookies, value: \"0\"}, {name: kernel/msgmax, value: \"9\"}]}}")
	if _, err := Sysctls(p, nil); err == nil {
		t.Errorf("an unsafe sysctl is allowed")
	}
	got, err := Sysctls(p, []string{"kernel.msg*"})
	if err != nil || got["kernel.msgmax"] != "9" || got["net.ipv4.tcp_syncookies"] != "0" {
		t.Errorf("Sysctls = %v, %v", got, err)
	}
}
