package podspec

import (
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestAContainerHasItsPodsLimitsWhereItHasNone, and its share of the CPU by them.
func TestAContainerHasItsPodsLimitsWhereItHasNone(t *testing.T) {
	t.Parallel()
	p := parse(t, `
spec:
  resources: {requests: {cpu: 1, memory: 1Gi}, limits: {cpu: 2, memory: 2Gi}}
  containers:
  - {name: none}
  - {name: requests, resources: {requests: {cpu: 250m}}}
  - {name: own, resources: {requests: {cpu: 250m}, limits: {cpu: 500m, memory: 1Gi}}}
  - {name: memory, resources: {limits: {memory: 512Mi}}}`)
	for i, want := range []struct{ shares, quota, memory int64 }{
		{2048, 200_000, 2 << 30},
		{256, 200_000, 2 << 30},
		{256, 50_000, 1 << 30},
		{2048, 200_000, 512 << 20},
	} {
		c := &p.Spec.Containers[i]
		if got := Limits(p, c, 8<<30); got.CPUShares != want.shares || got.CPUQuota != want.quota || got.MemoryLimit != want.memory {
			t.Errorf("%s has %d shares, %d of CPU and %d of memory, want %+v", c.Name, got.CPUShares, got.CPUQuota, got.MemoryLimit, want)
		}
	}
	p.Spec.Resources.Limits = nil
	if got := Limits(p, &p.Spec.Containers[0], 8<<30); got.CPUShares != 2 || got.CPUQuota != 0 || got.MemoryLimit != 0 {
		t.Errorf("of a pod that only requests it has %+v", got)
	}
}

func TestTheOOMScoreGoesByWhatIsRequested(t *testing.T) {
	t.Parallel()
	const machine = 8 << 30
	for name, test := range map[string]struct {
		spec string
		want map[string]int
	}{
		"of a container": {`
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}, {name: b}]`, map[string]int{"a": 875, "b": 999}},
		"of the pod beyond its containers, by halves": {`
  resources: {requests: {memory: 3Gi}}
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}, {name: b}]`, map[string]int{"a": 750, "b": 875}},
		"of the regular container with the least, for a sidecar": {`
  initContainers: [{name: s, restartPolicy: Always}, {name: big, restartPolicy: Always, resources: {requests: {memory: 4Gi}}}, {name: i}]
  containers: [{name: a, resources: {requests: {memory: 1Gi}}}, {name: b, resources: {requests: {memory: 2Gi}}}]`,
			map[string]int{"s": 875, "big": 500, "i": 999, "a": 875, "b": 750}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := parse(t, "status: {qosClass: Burstable}\nspec:"+test.spec)
			for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
				for i := range list {
					c := &list[i]
					if got := OOMScoreAdj(p, c, machine); got != test.want[c.Name] {
						t.Errorf("%s has %d, want %d", c.Name, got, test.want[c.Name])
					}
				}
			}
		})
	}
}
