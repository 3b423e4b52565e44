package podspec

import (
	"testing"
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
