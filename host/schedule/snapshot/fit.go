package snapshot

import "strings"

// How a shortage begins.
const (
	TooManyPods  = "Too many pods"
	Insufficient = "Insufficient "
)

// Shortage says all that a row lacks to take a pod, empty where it fits: the
// host's own check, which no policy can talk it out of. A request of 0 is
// not checked, as in Kubernetes.
func (r *Row) Shortage(pod *Pod) string {
	if claims(pod) {
		return "cannot allocate all claims"
	}
	var short []string
	if int64(len(r.Pods))+1 > r.Allocatable.Pods {
		short = append(short, TooManyPods)
	}
	check := func(name string, want, allocatable, requested int64) {
		if lacks(want, allocatable, requested) {
			short = append(short, Insufficient+name)
		}
	}
	want := &pod.Requests
	check("cpu", want.MilliCPU, r.Allocatable.MilliCPU, r.Requested.MilliCPU)
	check("memory", want.Memory, r.Allocatable.Memory, r.Requested.Memory)
	check("ephemeral-storage", want.EphemeralStorage, r.Allocatable.EphemeralStorage, r.Requested.EphemeralStorage)
	for _, s := range want.Scalars {
		check(s.Name, s.Value, r.Allocatable.scalar(s.Name), r.Requested.scalar(s.Name))
	}
	return strings.Join(short, ", ")
}

// claims says whether a pod waits for resource claims, which nobody allocates here.
func claims(pod *Pod) bool { return len(pod.Object.Spec.ResourceClaims) > 0 }

// Fits is Shortage for those who don't ask why.
func (r *Row) Fits(pod *Pod) bool {
	return !claims(pod) && int64(len(r.Pods)) < r.Allocatable.Pods && covers(&r.Allocatable, &r.Requested, &pod.Requests)
}

// FitsBeside is Fits on the row with one more pod.
func (r *Row) FitsBeside(more, pod *Pod) bool {
	requested := r.Requested.plus(&more.Requests)
	return int64(len(r.Pods))+1 < r.Allocatable.Pods && covers(&r.Allocatable, &requested, &pod.Requests)
}

// CouldFit says whether the row could take the pod if it were empty.
func (r *Row) CouldFit(pod *Pod) bool {
	return !claims(pod) && r.Allocatable.Pods > 0 && covers(&r.Allocatable, &Resources{}, &pod.Requests)
}

func covers(allocatable, requested, want *Resources) bool {
	if lacks(want.MilliCPU, allocatable.MilliCPU, requested.MilliCPU) ||
		lacks(want.Memory, allocatable.Memory, requested.Memory) ||
		lacks(want.EphemeralStorage, allocatable.EphemeralStorage, requested.EphemeralStorage) {
		return false
	}
	for _, s := range want.Scalars {
		if lacks(s.Value, allocatable.scalar(s.Name), requested.scalar(s.Name)) {
			return false
		}
	}
	return true
}

func lacks(want, allocatable, requested int64) bool {
	return want > 0 && want > allocatable-requested
}
