package job

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIntervals(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		text  string
		all   int
		more  []int
		want  string
		total int
	}{
		{"", 5, nil, "", 0},
		{"", 5, []int{3, 1}, "1,3", 2},
		{"0-2,4", 5, nil, "0-2,4", 4},
		{"0-2,4", 5, []int{3, 3, 0}, "0-4", 5},
		{"0,1", 5, []int{4}, "0,1,4", 3},
		{"1-7,9", 4, nil, "1-3", 3},
		{"7,9", 4, nil, "", 0},
		{"x,1,2-y,4", 9, nil, "1,4", 2},
		{"0,1,2", 9, nil, "0-2", 3},
	} {
		got := parseIndexes(tt.text, tt.all).with(tt.more)
		if got.text() != tt.want || got.total() != tt.total {
			t.Errorf("%q of %d with %v = %q, %d, want %q, %d", tt.text, tt.all, tt.more, got.text(), got.total(), tt.want, tt.total)
		}
		for i := range tt.all {
			if missing := cmp.Equal(got.missing(1, i+1), []int{i}); missing && got.has(i) {
				t.Errorf("%q has %d, and misses it", got.text(), i)
			}
		}
	}
	set := parseIndexes("1-3,6", 10)
	for count, want := range map[int][]int{0: nil, 1: {0}, 3: {0, 4, 5}, 99: {0, 4, 5, 7, 8, 9}} {
		if diff := cmp.Diff(want, set.missing(count, 10)); diff != "" {
			t.Errorf("missing %d (-want +got):\n%s", count, diff)
		}
	}
	if n := set.overlap(parseIndexes("0-1,3-6", 10)); n != 3 {
		t.Errorf("overlap = %d, want 3", n)
	}
}
