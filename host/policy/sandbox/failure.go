package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// subject is what a guest is asked about, so that its failures can tell.
type subject struct {
	rows   snapshot.Log  // that the slots are of
	pod    *snapshot.Pod // of the cycle; nil while deltas are applied
	now    int64
	gated  []wire.GatePod
	parent *wire.ControlObject
}

// at names what a guest was at: a slot, or a place in the list that it was
// given; -1 if that is not known.
func (s *subject) at(place int32) string {
	switch {
	case s.parent != nil:
		return fmt.Sprintf("%s %s/%s", s.parent.Kind.Kind, s.parent.Object.GetNamespace(), s.parent.Object.GetName())
	case len(s.gated) > 0:
		return s.gate(place)
	case s.pod == nil:
		return s.node(place)
	}
	text := "pod " + s.pod.Object.Namespace + "/" + s.pod.Object.Name
	if node := s.node(place); node != "" {
		text += ", " + node
	}
	return text
}

func (s *subject) gate(place int32) string {
	if len(s.gated) == 1 {
		place = 0
	}
	if place < 0 || int(place) >= len(s.gated) {
		return fmt.Sprintf("one of %d pods", len(s.gated))
	}
	pod := s.gated[place].Pod
	return "pod " + pod.Namespace + "/" + pod.Name
}

func (s *subject) node(slot int32) string {
	if s.rows == nil || slot < 0 || slot >= s.rows.Slots() {
		return ""
	}
	row := s.rows.Row(slot)
	if row == nil {
		return fmt.Sprintf("row %d", slot)
	}
	return "node " + row.Node.Name
}

// try runs one export and counts it.
func (s *Sandbox) try(f engine.Func, in []byte, budget engine.Fuel) (engine.Result, error) {
	r, err := s.instance.Call(f, in, budget)
	memory := s.instance.MemoryBytes()
	s.spend(f, r, err, memory, s.slots)
	if err == nil && r.Status != abi.StatusOK {
		err = fmt.Errorf("%s: %s", f, complaint(s.instance))
	}
	if err == nil {
		s.calls++
		s.wear.calls++
		// To be told of the cluster is no answer that speaks for a guest.
		s.health.called(r.Took, r.Fuel, memory, f != engine.FuncApply)
	}
	return r, err
}

// call is try, and throws the instance away if it fails.
func (s *Sandbox) call(f engine.Func, in []byte, budget engine.Fuel) (engine.Result, error) {
	r, err := s.try(f, in, budget)
	if err != nil && s.worn(err) {
		s.log.Debug("policy is built anew, since it ran out of fuel after long use", "err", err)
		s.Close()
		return r, errWorn
	}
	if err != nil {
		return r, s.fail(err)
	}
	return r, nil
}

func (s *Sandbox) fail(err error) error { return s.failAt(err, s.place(err)) }

// failAt throws the instance away and tells all who want to know. That one has
// left is no failure.
func (s *Sandbox) failAt(err error, place int32) error {
	if s.retired.Load() {
		s.Close()
		return fmt.Errorf("policy %s: %w", s.name, err)
	}
	if s.reclaimed(err) {
		s.Close()
		return fmt.Errorf("policy %s: %w", s.name, ErrMemoryReclaimed)
	}
	if about := s.about.at(place); about != "" {
		err = fmt.Errorf("%s: %w", about, err)
	}
	parent := ""
	if p := s.about.parent; p != nil {
		parent = string(p.Object.GetUID())
	}
	s.Close()
	s.health.failed(time.Now(), err, parent)
	s.guestLog.add(slog.LevelError, s.module.Digest(), "it failed: "+withStack(err))
	s.log.Warn("policy failed", "err", withStack(err))
	return fmt.Errorf("policy %s: %w", s.name, err)
}

// Shed implements framework.Metered.
func (s *Sandbox) Shed(burnt, all, most int64) {
	if !s.retired.Load() {
		_ = s.fail(fmt.Errorf("the policies of the profile took %d of fuel for one pod, where %d is the most: this one took %d of it, more than any other", all, most, burnt))
	}
}

// placeOf is what the guest says itself that it was at, -1 if it does not.
func placeOf(err error) int32 {
	var f *engine.Failure
	if errors.As(err, &f) {
		return f.At
	}
	return -1
}

// withStack is an error's text and the guest's functions, if there is more to
// them than the text has.
func withStack(err error) string {
	var f *engine.Failure
	if errors.As(err, &f) && len(f.Stack) > 1 {
		return err.Error() + " < " + strings.Join(f.Stack[1:], " < ")
	}
	return err.Error()
}

// maxSearched is the fuel that goes into finding what a guest failed at.
const maxSearched = 10 * engine.MaxBudget

// rowOf says which of some rows a guest was at when it failed, -1 if that does
// not come out. Where it does not say so itself, a fresh instance is asked about
// one row after the other, until one fails as well. The breaker bounds how often
// that may happen.
func (s *Sandbox) rowOf(ctx context.Context, f engine.Func, rows []int32, err error) int32 {
	switch place := s.place(err); {
	case len(rows) == 1:
		return rows[0]
	case place >= 0 || !trapped(err):
		return place
	}
	s.Close()
	box := s.Aside(NewHealth(func() {}))
	defer box.Close()
	if _, err := box.Pod(ctx, s.about.rows, s.about.pod, s.about.now); err != nil {
		return -1
	}
	for i, spent := 0, engine.Fuel(0); i < len(rows) && spent < maxSearched; i++ {
		in, err := box.input(ctx, rows, i, i+1)
		if err != nil {
			return -1
		}
		r, err := box.try(f, in, box.rowsBudget(1, len(in)))
		if err != nil {
			return rows[i]
		}
		spent += r.Fuel
	}
	return -1
}

// Aside is a sandbox of the same program of which nobody hears. What it does
// counts in a health of its own.
func (s *Sandbox) Aside(h *Health) *Sandbox {
	quiet := *s.Program
	quiet.health, quiet.guestLog = h, new(GuestLog)
	quiet.log, quiet.counts = slog.New(slog.DiscardHandler), nil
	box := New(&quiet)
	box.SetPriority(engine.PrioritySpare) // nobody waits for it
	return box
}
