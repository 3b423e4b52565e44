package snapshot

import (
	"sort"
	"strings"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// Quantities saturate, so that no formula of a policy overflows: a percentage
// of the largest still fits into an int64.
const (
	// MaxAllocatable is the most that a node can offer of anything.
	MaxAllocatable int64 = 1<<55 - 1
	// MaxRequest is what a request beyond it counts as; it fits nowhere.
	MaxRequest int64 = MaxAllocatable + 1
)

// Defaults of Kubernetes for scoring containers that request nothing.
const (
	DefaultMilliCPU int64 = 100
	DefaultMemory   int64 = 200 << 20
)

// whole returns a quantity as an integer, rounded up, between 0 and limit.
func whole(q resource.Quantity, limit int64) int64 {
	if v, ok := q.AsInt64(); ok {
		return min(max(v, 0), limit)
	}
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(limit) >= 0 {
		return limit
	}
	return q.Value()
}

// milli returns a quantity in thousandths, rounded up, between 0 and limit.
func milli(q resource.Quantity, limit int64) int64 {
	if q.Sign() <= 0 {
		return 0
	}
	if q.CmpInt64(limit/1000) >= 0 {
		return limit
	}
	return q.MilliValue()
}

// resourcesOf turns a list into integers that are at most limit.
func resourcesOf(list v1.ResourceList, limit int64) Resources {
	var r Resources
	for name, q := range list {
		switch name {
		case v1.ResourceCPU:
			r.MilliCPU = milli(q, limit)
		case v1.ResourceMemory:
			r.Memory = whole(q, limit)
		case v1.ResourceEphemeralStorage:
			r.EphemeralStorage = whole(q, limit)
		case v1.ResourcePods:
			r.Pods = whole(q, limit)
		default:
			if isScalar(string(name)) {
				r.Scalars = append(r.Scalars, Scalar{Name: string(name), Value: whole(q, limit)})
			}
		}
	}
	sort.Slice(r.Scalars, func(i, j int) bool { return r.Scalars[i].Name < r.Scalars[j].Name })
	return r
}

// isScalar says whether a resource is counted beside the four native ones:
// extended resources, hugepages and attachable volumes.
func isScalar(name string) bool {
	if strings.HasPrefix(name, "requests.") {
		return false
	}
	return strings.Contains(name, "/") ||
		strings.HasPrefix(name, v1.ResourceHugePagesPrefix) ||
		strings.HasPrefix(name, v1.ResourceAttachableVolumesPrefix)
}

// saturated adds two quantities up to MaxRequest.
func saturated(a, b int64) int64 { return min(a+b, MaxRequest) }

// plus returns the sum of r and o; Scalars are copied where they change.
func (r Resources) plus(o *Resources) Resources {
	r.MilliCPU = saturated(r.MilliCPU, o.MilliCPU)
	r.Memory = saturated(r.Memory, o.Memory)
	r.EphemeralStorage = saturated(r.EphemeralStorage, o.EphemeralStorage)
	if len(o.Scalars) > 0 {
		r.Scalars = mergeScalars(r.Scalars, o.Scalars, saturated)
	}
	return r
}

// minus returns the difference; ok is false where a saturated sum hides it.
func (r Resources) minus(o *Resources) (Resources, bool) {
	if r.full() {
		return r, false
	}
	r.MilliCPU -= o.MilliCPU
	r.Memory -= o.Memory
	r.EphemeralStorage -= o.EphemeralStorage
	if len(o.Scalars) > 0 {
		r.Scalars = mergeScalars(r.Scalars, o.Scalars, func(a, b int64) int64 { return a - b })
	}
	return r, true
}

func (r *Resources) full() bool {
	if r.MilliCPU >= MaxRequest || r.Memory >= MaxRequest || r.EphemeralStorage >= MaxRequest {
		return true
	}
	for _, s := range r.Scalars {
		if s.Value >= MaxRequest {
			return true
		}
	}
	return false
}

// mergeScalars joins two sorted lists; entries that become 0 are left out.
func mergeScalars(a, b []Scalar, join func(a, b int64) int64) []Scalar {
	out := make([]Scalar, 0, len(a)+len(b))
	for len(a) > 0 || len(b) > 0 {
		var s Scalar
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].Name < b[0].Name:
			s, a = a[0], a[1:]
		case len(a) == 0 || b[0].Name < a[0].Name:
			s = Scalar{Name: b[0].Name, Value: join(0, b[0].Value)}
			b = b[1:]
		default:
			s = Scalar{Name: a[0].Name, Value: join(a[0].Value, b[0].Value)}
			a, b = a[1:], b[1:]
		}
		if s.Value != 0 {
			out = append(out, s)
		}
	}
	return out
}

// equal compares two sums.
func (r *Resources) equal(o *Resources) bool {
	if r.MilliCPU != o.MilliCPU || r.Memory != o.Memory || r.EphemeralStorage != o.EphemeralStorage ||
		r.Pods != o.Pods || len(r.Scalars) != len(o.Scalars) {
		return false
	}
	for i := range r.Scalars {
		if r.Scalars[i] != o.Scalars[i] {
			return false
		}
	}
	return true
}

// scalar returns the amount of a further resource.
func (r *Resources) scalar(name string) int64 {
	for _, s := range r.Scalars {
		if s.Name == name {
			return s.Value
		}
	}
	return 0
}
