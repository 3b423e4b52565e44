package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync/atomic"

	"github.com/berth-dev/berth/abi"
)

// sampled is how many questions there are to one that is asked twice.
const sampled = 1000

// twice counts questions, for those that are asked twice.
type twice struct{ asked atomic.Uint64 }

// askTwice asks the guest the same once more, now and then: one that answers by
// more than what it is asked cannot be replayed, compared or trusted in a trial,
// and whoever runs it is told.
func (d *Driver) askTwice(ctx context.Context, g *gathered, out *abi.ReconcileResult) error {
	if d.twice.asked.Add(1)%sampled != 0 {
		return nil
	}
	again, err := d.Guest.Reconcile(ctx, &g.Input)
	if err != nil {
		return fmt.Errorf("asked twice about the same state: %w", err)
	}
	if what := difference(out, again); what != "" {
		d.Note(slog.LevelWarn, fmt.Sprintf("%s %s: asked twice about the same state it answers differently: %s", d.parent.kind.Kind, nameOf(g.parent), what))
	}
	return nil
}

// difference is what two answers first differ in, "" where they are the same.
func difference(a, b *abi.ReconcileResult) string {
	for _, part := range []struct {
		name string
		a, b any
	}{
		{"adopt", a.Adopt, b.Adopt}, {"release", a.Release, b.Release}, {"patch", a.Patch, b.Patch}, {"delete", a.Delete, b.Delete},
		{"create", a.Create, b.Create}, {"status", a.Status, b.Status}, {"events", a.Events, b.Events},
		{"requeueAfterNanos", a.RequeueAfterNanos, b.RequeueAfterNanos}, {"why", a.Why, b.Why}, {"memory", a.Memory, b.Memory},
	} {
		one, errA := json.Marshal(part.a)
		other, errB := json.Marshal(part.b)
		if errA != nil || errB != nil || string(one) != string(other) {
			return fmt.Sprintf("%s was %.200s, then %.200s", part.name, one, other)
		}
	}
	return ""
}
