package admit

import (
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

func parse[T any](t *testing.T, text string) *T {
	t.Helper()
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestAdmit(t *testing.T) {
	t.Parallel()
	const machine = `
metadata: {name: n1, labels: {zone: a, kubernetes.io/os: linux}}
spec: {taints: [{key: k, effect: NoExecute}, {key: s, effect: NoSchedule}]}
status: {allocatable: {cpu: "2", memory: 4Gi, pods: "2", example.com/gpu: "1"}}`
	const busy = `spec: {containers: [{name: c, ports: [{hostPort: 80, containerPort: 1}], resources: {requests: {cpu: 1500m}}}]}`
	const tolerate = "tolerations: [{key: k, operator: Exists}]"
	for name, test := range map[string]struct{ spec, reason, message string }{
		"a small pod fits":             {"containers: [{name: c, resources: {requests: {cpu: 500m}}}]", "", ""},
		"too much CPU":                 {"containers: [{name: c, resources: {requests: {cpu: 501m}}}]", "OutOfcpu", "requested: 501, used: 1500, capacity: 2000"},
		"a critical pod gets no room":  {"priorityClassName: system-node-critical\n  priority: 2000001000\n  containers: [{name: c, resources: {requests: {cpu: 501m}}}]", "OutOfcpu", "requested: 501"},
		"too much memory":              {"containers: [{name: c, resources: {requests: {memory: 5Gi}}}]", "OutOfmemory", "memory"},
		"a device that is not there":   {"containers: [{name: c, resources: {requests: {example.com/gpu: 2}, limits: {example.com/gpu: 2}}}]", "OutOfexample.com_gpu", "gpu"},
		"a device that nobody knows":   {"containers: [{name: c, resources: {requests: {example.com/tpu: 2}, limits: {example.com/tpu: 2}}}]", "", ""},
		"a page size that is not here": {"containers: [{name: c, resources: {requests: {hugepages-1Gi: 2Gi}, limits: {hugepages-1Gi: 2Gi}}}]", "OutOfhugepages-1Gi", "hugepages-1Gi"},
		"another system's pod":         {"os: {name: windows}\n  containers: [{name: c}]", "PodOSNotSupported", "OS field doesn't match node OS"},
		"this system's pod":            {"os: {name: linux}\n  containers: [{name: c}]", "", ""},
		"a selector of another system": {"nodeSelector: {kubernetes.io/os: windows}\n  containers: [{name: c}]", "PodOSSelectorNodeLabelDoesNotMatch", "label doesn't match"},
		"a profile without AppArmor":   {"securityContext: {appArmorProfile: {type: RuntimeDefault}}\n  containers: [{name: c}]", "AppArmor", "AppArmor is not enabled on the host"},
		"a container's profile":        {"initContainers: [{name: i, securityContext: {appArmorProfile: {type: Localhost, localhostProfile: a}}}]\n  containers: [{name: c}]", "AppArmor", "Cannot enforce AppArmor"},
		"a profile that confines none": {"securityContext: {appArmorProfile: {type: Unconfined}}\n  containers: [{name: c}]", "", ""},
		"a host port in use":           {"containers: [{name: c, ports: [{hostPort: 80, containerPort: 9}]}]", "NodePorts", "free ports"},
		"the same port of UDP":         {"containers: [{name: c, ports: [{hostPort: 80, containerPort: 9, protocol: UDP}]}]", "", ""},
		"another machine's label":      {"nodeSelector: {zone: b}\n  containers: [{name: c}]", "NodeAffinity", "selector"},
		"another machine's name":       {"nodeName: n2\n  containers: [{name: c}]", "NodeName", "node name"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse[v1.Pod](t, "spec:\n  "+tolerate+"\n  "+test.spec)
			got := Admit(parse[v1.Node](t, machine), Features{OS: "linux"}, []*v1.Pod{parse[v1.Pod](t, busy)}, p)
			switch {
			case got == nil && test.reason != "":
				t.Errorf("Admit = nil, want %s", test.reason)
			case got != nil && (got.Reason != test.reason || !strings.HasPrefix(got.Message, "Pod was rejected: ") || !strings.Contains(got.Message, test.message)):
				t.Errorf("Admit = %+v, want %s with %q", got, test.reason, test.message)
			}
		})
	}
	plain := parse[v1.Pod](t, "spec: {containers: [{name: c}]}")
	if got := Admit(parse[v1.Node](t, machine), Features{OS: "linux"}, nil, plain); got == nil || got.Reason != "TaintToleration" {
		t.Errorf("a taint NoExecute: %+v", got)
	}
	plain.Spec.Tolerations = []v1.Toleration{{Operator: v1.TolerationOpExists}}
	if got := Admit(parse[v1.Node](t, machine), Features{OS: "linux"}, []*v1.Pod{plain, plain}, plain); got == nil || got.Reason != "OutOfpods" {
		t.Errorf("a full node: %+v", got)
	}
	plain.Spec.SecurityContext = &v1.PodSecurityContext{AppArmorProfile: &v1.AppArmorProfile{Type: v1.AppArmorProfileTypeRuntimeDefault}}
	if got := Admit(parse[v1.Node](t, machine), Features{OS: "linux", AppArmor: true}, nil, plain); got != nil {
		t.Errorf("a profile where the kernel has AppArmor: %+v", got)
	}
}
