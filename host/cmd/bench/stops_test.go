package main

import (
	"math"
	"runtime"
	"testing"
)

func TestPausesAreReadFromTheirHistogram(t *testing.T) {
	t.Parallel()
	bounds := []float64{0, 1, 2, 4, math.Inf(1)}
	before, after := pauses{[]uint64{5, 0, 0, 0}, bounds}, pauses{[]uint64{8, 0, 1, 0}, bounds}
	p := after.since(before)
	for share, want := range map[float64]float64{0.5: 1, 0.75: 1, 0.99: 4, 1: 4} {
		if got := p.at(share); got != want {
			t.Errorf("at(%v) = %v, want %v", share, got, want)
		}
	}
	if got := (pauses{[]uint64{0, 0, 0, 1}, bounds}).at(1); got != 4 {
		t.Errorf("the longest of all = %v, want the last bound that is a number", got)
	}
	begun := stops()
	runtime.GC()
	if got := stops().since(begun).at(1); got <= 0 {
		t.Errorf("a collection stopped the world for %v seconds", got)
	}
}
