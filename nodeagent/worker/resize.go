package worker

import (
	"context"
	"errors"
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/component-helpers/resource"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// resize brings the cgroups of a pod and its containers to what the spec asks
// for: the pod's is never narrower than theirs on the way.
func (w *worker) resize(ctx context.Context, r *pod.Record) outcome {
	before, after := r.InForce(), r.Pod
	if reason, message := w.cannotGrow(r.Holds(), after); reason != "" {
		if r.Held == nil || r.Held.Reason != reason {
			w.event(r, v1.EventTypeWarning, "Resize"+reason, "%s", message)
		}
		return func(r *pod.Record, now time.Time) { r.DidNotResize(reason, message, now) }
	}
	if err := w.cannotShrink(ctx, r, before, after); err != nil {
		return w.resizeFailed(r, err)
	}
	group := podspec.CgroupParent(w.CgroupRoot, after)
	wide := wider(w.podLimits(before), w.podLimits(after))
	if err := w.Cgroups.Ensure(group, wide); err != nil {
		return w.resizeFailed(r, err)
	}
	var has, restart []string
	whole := !apiequality.Semantic.DeepEqual(before.Spec.Resources, after.Spec.Resources)
	for _, c := range r.Specs() {
		own := r.Resizes(c)
		if !own && (!whole || r.Containers[c.Name].Phase != pod.Running) { // the pod's limits are theirs that have none
			continue
		}
		if own && c.RestartsFor(r.Containers[c.Name].Applied) {
			restart = append(restart, c.Name)
			continue
		}
		update := func(ctx context.Context) error {
			return w.Runtime.UpdateContainer(ctx, r.Containers[c.Name].ID, w.limits(after, c.Container))
		}
		if err := within(ctx, update); err != nil {
			return w.resizeFailed(r, err)
		}
		has = append(has, c.Name)
	}
	if len(restart) == 0 {
		if err := w.Cgroups.Ensure(group, w.podLimits(after)); err != nil {
			return w.resizeFailed(r, err)
		}
	}
	w.event(r, v1.EventTypeNormal, "ResizeCompleted", "Pod resize completed")
	return func(r *pod.Record, _ time.Time) { r.DidResize(after, has, restart) }
}

func (w *worker) resizeFailed(r *pod.Record, err error) outcome {
	w.event(r, v1.EventTypeWarning, "ResizeError", "%v", err)
	return func(r *pod.Record, now time.Time) { r.DidNotResize(v1.PodReasonError, err.Error(), now) }
}

// cannotGrow says why the machine has not what a pod wants more of: for good,
// or as long as the other pods have theirs.
func (w *worker) cannotGrow(granted, after *v1.Pod) (reason, message string) {
	had, wants := resource.PodRequests(granted, resource.PodResourcesOptions{}), resource.PodRequests(after, resource.PodResourcesOptions{})
	for _, name := range []v1.ResourceName{v1.ResourceCPU, v1.ResourceMemory} {
		want, have, all := amount(wants, name), amount(had, name), amount(w.Allocatable, name)
		if want <= have {
			continue
		}
		if want > all {
			return v1.PodReasonInfeasible, fmt.Sprintf("Node didn't have enough capacity: %s, requested: %d, capacity: %d", name, want, all)
		}
		var used int64
		for _, p := range w.others(w.uid) {
			used += amount(resource.PodRequests(p, resource.PodResourcesOptions{}), name)
		}
		if used+want > all {
			return v1.PodReasonDeferred, fmt.Sprintf("Node didn't have enough resource: %s, requested: %d, used: %d, capacity: %d", name, want, used, all)
		}
	}
	return "", ""
}

// cannotShrink says which memory limits would fall below what is in use: the kernel
// would end the containers for it.
func (w *worker) cannotShrink(ctx context.Context, r *pod.Record, before, after *v1.Pod) error {
	whole, own := w.lowered(r, before, after)
	if whole == 0 && len(own) == 0 {
		return nil
	}
	var stats []runtime.Stats
	err := within(ctx, func(ctx context.Context) (err error) {
		stats, err = w.Runtime.Stats(ctx)
		return err
	})
	if err != nil {
		return err
	}
	var errs []error
	var used uint64
	for _, s := range stats {
		if s.Pod.UID == w.uid {
			used += s.MemoryBytes
		}
		if limit, ok := own[s.ID]; ok && s.MemoryBytes >= uint64(limit) {
			errs = append(errs, fmt.Errorf("attempting to set container %q memory limit (%d) below current usage (%d)", s.Name, limit, s.MemoryBytes))
		}
	}
	if whole > 0 && used >= uint64(whole) {
		errs = append(errs, fmt.Errorf("attempting to set pod memory limit (%d) below current usage (%d)", whole, used))
	}
	if len(errs) > 0 {
		return fmt.Errorf("cannot decrease memory limits: %w", errors.Join(errs...))
	}
	return nil
}

// lowered gives the memory limits that a resize lowers while what is in use stays: the
// pod's, zero if it is not one of them, and containers', by their ids.
func (w *worker) lowered(r *pod.Record, before, after *v1.Pod) (whole int64, own map[string]int64) {
	own = map[string]int64{}
	if wants := w.podLimits(after).MemoryLimit; lowers(w.podLimits(before).MemoryLimit, wants) {
		whole = wants
	}
	for _, c := range r.Specs() {
		s := r.Containers[c.Name]
		if !r.Resizes(c) {
			continue
		}
		if c.RestartsFor(s.Applied) {
			whole = 0 // the pod's is lowered when this one starts anew
			continue
		}
		had := w.limits(before, &v1.Container{Resources: *s.Applied}).MemoryLimit
		if wants := w.limits(after, c.Container).MemoryLimit; lowers(had, wants) {
			own[s.ID] = wants
		}
	}
	return whole, own
}

// lowers says whether a limit falls; zero is none.
func lowers(had, wants int64) bool { return wants > 0 && (had == 0 || wants < had) }

// amount is in milli-CPU or bytes.
func amount(list v1.ResourceList, name v1.ResourceName) int64 {
	q := list[name]
	if name == v1.ResourceCPU {
		return q.MilliValue()
	}
	return q.Value()
}

// wider is the more generous of two sets of limits; where one has none, none is
// set.
func wider(a, b runtime.Resources) runtime.Resources {
	most := func(x, y int64) int64 {
		if x == 0 || y == 0 {
			return 0
		}
		return max(x, y)
	}
	return runtime.Resources{
		CPUShares: max(a.CPUShares, b.CPUShares), CPUPeriod: max(a.CPUPeriod, b.CPUPeriod),
		CPUQuota: most(a.CPUQuota, b.CPUQuota), MemoryLimit: most(a.MemoryLimit, b.MemoryLimit),
	}
}
