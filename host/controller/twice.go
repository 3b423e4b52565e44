package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
)

// sampled is how many questions there are to one that is asked twice.
const sampled = 1000

// twice counts questions, for those that are asked twice.
type twice struct{ asked atomic.Uint64 }

// answer asks the guest, and now and then the same once more: one that answers by
// more than what it is asked cannot be replayed, compared or trusted in a trial,
// and whoever runs it is told.
func (d *Driver) answer(ctx context.Context, g *gathered) (*abi.ReconcileResult, error) {
	out, err := d.Guest.Reconcile(ctx, &g.Input)
	if errors.As(err, new(*wire.TooLargeError)) {
		d.event(ctx, g.parent, v1.EventTypeWarning, "TooManyObjects", err.Error())
	}
	if err != nil || d.twice.asked.Add(1)%sampled != 0 {
		return out, err
	}
	again, err := d.Guest.Reconcile(ctx, &g.Input)
	if err != nil {
		return nil, fmt.Errorf("asked twice about the same state: %w", err)
	}
	if what := difference(out, again); what != "" {
		d.Note(slog.LevelWarn, fmt.Sprintf("%s %s: asked twice about the same state it answers differently: %s", d.parent.kind.Kind, nameOf(g.parent), what))
	}
	return out, nil
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
