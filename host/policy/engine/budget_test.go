package engine_test

import (
	"testing"

	"github.com/berth-dev/berth/host/policy/engine"
)

// A question's budget is by row, unless the guest is larger than its nodes are the
// reason for: then each of its loads may miss all caches.
func TestAQuestionCostsMoreInALargeMemory(t *testing.T) {
	t.Parallel()
	const question = 72_000_000
	for _, tt := range []struct {
		memory uint64
		slots  int
		want   engine.Fuel
	}{
		{2 << 20, 1000, question},
		{60 << 20, 100_000, question},
		{60 << 20, 1000, question / 103},
		{1 << 40, 1, question / 4096},
	} {
		got := engine.Shrunk(question, tt.memory, tt.slots)
		if got < tt.want*9/10 || got > tt.want*11/10 {
			t.Errorf("%d MiB at %d nodes: %d of fuel, want about %d", tt.memory>>20, tt.slots, got, tt.want)
		}
		if back := engine.Dear(got, tt.memory, tt.slots); back < question*9/10 || back > question*11/10 {
			t.Errorf("%d MiB at %d nodes: burning all of it counts as %d, want about %d", tt.memory>>20, tt.slots, back, question)
		}
	}
}
