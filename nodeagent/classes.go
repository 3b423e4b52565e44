package nodeagent

import (
	v1 "k8s.io/api/core/v1"
	componentresource "k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// weighClasses gives the cgroups of the QoS classes their shares of the CPU, as
// the kubelet does: burstable pods together what they request, best-effort ones
// as little as there is. Without it a class weighs as much as one pod with a whole
// CPU, however many pods are in it.
func (a *Agent) weighClasses() {
	var milli int64
	a.pool.Each(func(r *pod.Record) {
		if !r.Active() || pod.QOS(r.Pod) != v1.PodQOSBurstable {
			return
		}
		requests := componentresource.PodRequests(r.Holds(), componentresource.PodResourcesOptions{})
		milli += requests.Cpu().MilliValue()
	})
	if milli == a.weighed {
		return
	}
	for class, shares := range map[v1.PodQOSClass]int64{v1.PodQOSBurstable: podspec.Shares(milli), v1.PodQOSBestEffort: podspec.Shares(0)} {
		if err := a.cfg.Cgroups.Ensure(podspec.ClassCgroup(a.cfg.CgroupRoot, class), runtime.Resources{CPUShares: shares}); err != nil {
			a.log.Warn("weigh a class of pods", "class", class, "err", err)
			return
		}
	}
	a.weighed = milli
}
