package schedule

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

func TestSpansAreTheSlotsThatTheyWereMadeOf(t *testing.T) {
	t.Parallel()
	luck := rand.New(rand.NewPCG(1, 2))
	for range 1000 {
		var slots []int32
		for slot := range int32(200) {
			if luck.IntN(4) > 0 {
				slots = append(slots, slot)
			}
		}
		spans := spansOf(slots)
		if got := spans.within(200); !slices.Equal(got, slots) {
			t.Fatalf("%v is kept as %v, which is %v", slots, spans, got)
		}
		end, _ := slices.BinarySearch(slots, 100)
		if got := spans.within(100); !slices.Equal(got, slots[:end]) {
			t.Fatalf("%v below 100 is %v", spans, got)
		}
	}
	all := make([]int32, 5000)
	for i := range all {
		all[i] = int32(i)
	}
	if spans := spansOf(all); len(spans) != 2 || cap(spans) != 2 {
		t.Errorf("all nodes are kept as %v, of %d numbers", spans, cap(spans))
	}
}

func TestSpoiltSpansAreBounded(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		spans Spans
		want  []int32
	}{
		{nil, nil},
		{Spans{1}, nil},
		{Spans{0, math.MaxInt32}, []int32{0, 1, 2}},
		{Spans{1, 1, math.MaxInt32, math.MaxInt32}, []int32{1}},
		{Spans{-1, 3, 1, 1}, []int32{1}},
		{Spans{0, 2, 0, 2, 1, 2}, []int32{0, 1}},
		{Spans{2, -1, 1, 1}, nil},
		{Spans{math.MinInt32, math.MinInt32}, nil},
	} {
		if got := tt.spans.within(3); !slices.Equal(got, tt.want) {
			t.Errorf("%v below 3 is %v, want %v", tt.spans, got, tt.want)
		}
	}
}
