package main

import (
	"math"
	"slices"
	"time"
)

// times is a set of measured times.
type times []time.Duration

// at returns the smallest time which that share of all does not exceed (the
// nearest rank): at(0.5) is the median, at(1) the longest.
func (s times) at(share float64) time.Duration {
	if len(s) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(share * float64(len(sorted))))
	return sorted[min(max(rank, 1), len(sorted))-1]
}

func millis(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
func micros(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }
func mib[T ~int64 | ~uint64](n T) float64 {
	return float64(n) / (1 << 20)
}
