package main

import (
	"math"
	"runtime/metrics"
)

// pauses is a histogram of how long all goroutines stood still for the garbage
// collector, in seconds: a runtime.GC() is mostly marking, beside which others
// run, and waits for the running guest's slice to end when it stops the world.
type pauses struct {
	counts []uint64
	bounds []float64
}

// stops are the pauses since the process began.
func stops() pauses {
	sample := []metrics.Sample{{Name: "/sched/pauses/total/gc:seconds"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindFloat64Histogram {
		return pauses{}
	}
	h := sample[0].Value.Float64Histogram()
	return pauses{h.Counts, h.Buckets}
}

// since leaves those out that were there before.
func (p pauses) since(before pauses) pauses {
	counts := make([]uint64, len(p.counts))
	for i := range counts {
		counts[i] = p.counts[i] - before.counts[i]
	}
	return pauses{counts, p.bounds}
}

// at is the pause that this share of them does not exceed, in seconds: the upper
// bound of the histogram's bucket.
func (p pauses) at(share float64) float64 {
	var all, seen uint64
	for _, n := range p.counts {
		all += n
	}
	need := uint64(math.Ceil(share * float64(all)))
	for i, n := range p.counts {
		if seen += n; n > 0 && seen >= need {
			if math.IsInf(p.bounds[i+1], 1) {
				return p.bounds[i]
			}
			return p.bounds[i+1]
		}
	}
	return unknown
}
