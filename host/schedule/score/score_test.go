package score

import (
	"math"
	"testing"

	"github.com/berth-dev/berth/abi"
)

func TestNormalizesAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		kind abi.Normalization
		raw  int64
		e    Extremes
		want int64
	}{
		{"none keeps what is within bounds", abi.NormalizeNone, 55, Extremes{0, 60}, 55},
		{"none clamps above", abi.NormalizeNone, 1 << 40, Extremes{}, 100},
		{"none clamps below", abi.NormalizeNone, -5, Extremes{}, 0},
		{"max truncates", abi.NormalizeMax, 2, Extremes{0, 3}, 66},
		{"max of nothing is 0", abi.NormalizeMax, 0, Extremes{}, 0},
		{"max-reversed", abi.NormalizeMaxReversed, 1, Extremes{0, 3}, 67},
		{"max-reversed of nothing is the best", abi.NormalizeMaxReversed, 0, Extremes{}, 100},
		{"min-max of equals is 0", abi.NormalizeMinMax, 7, Extremes{7, 7}, 0},
		{"min-max with negatives", abi.NormalizeMinMax, 0, Extremes{-5, 5}, 50},
		// 100*(29/100) is 28.999… in floats, and kube-scheduler cuts it.
		{"min-max divides as floats do", abi.NormalizeMinMax, 29, Extremes{0, 100}, 28},
		{"extremes of what is allowed", abi.NormalizeMinMax, abi.MaxScore, Extremes{-abi.MaxScore, abi.MaxScore}, 100},
	}
	for _, tt := range tests {
		if got := Normalize(tt.kind, tt.raw, tt.e); got != tt.want {
			t.Errorf("%s: Normalize(%d, %v) = %d, want %d", tt.name, tt.raw, tt.e, got, tt.want)
		}
	}
	if Clamp(math.MinInt64) != -abi.MaxScore || Clamp(math.MaxInt64) != abi.MaxScore {
		t.Error("raw scores are not clamped")
	}
}
