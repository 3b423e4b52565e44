package sandbox

import (
	"context"
	"errors"
	"fmt"
	"math"
	"sync/atomic"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
)

// pace is how many rows one call is asked about, as far as the calls so far tell.
// All sandboxes of a program share it.
type pace struct {
	fuel atomic.Int64 // that a row takes, as the dearest of late took it
	most atomic.Int64 // rows, since a call of more ran out of fuel; 0 if none did
	well atomic.Int64 // calls since then that did not
}

const (
	// firstRows are asked about before anything is known of a program.
	firstRows = 64
	// telling is how many rows tell what one takes: of fewer the base shows, or
	// the collector that ran in this very call.
	telling = 16
	// forgives is after how many calls that went well larger ones are tried.
	forgives = 256
)

// rows is how many rows a call of so much fuel is asked about.
func (p *pace) rows(call engine.Fuel) int {
	rows := firstRows
	if fuel := p.fuel.Load(); fuel > 0 {
		rows = int(max(int64(call)/2/fuel, 1))
	}
	if most := p.most.Load(); most > 0 {
		rows = min(rows, int(most))
	}
	return rows
}

// took learns of a call that went well.
func (p *pace) took(rows int, fuel engine.Fuel) {
	most := p.most.Load()
	if most > 0 && p.well.Add(1)%forgives == 0 {
		p.most.CompareAndSwap(most, min(2*most, math.MaxInt32))
	}
	if rows < telling && int64(rows) != most {
		return
	}
	each, known := max(int64(fuel)/int64(rows), 1), p.fuel.Load()
	p.fuel.Store(max(each, known-known/16))
}

// spent learns of a call that ran out of fuel.
func (p *pace) spent(rows int) {
	p.most.Store(int64(max(rows/4, 1)))
	p.well.Store(0)
}

// callLimit is the field of a Policy that raises the fuel of calls about rows.
const callLimit = "spec.limits.callMilliseconds"

// errSmaller says that a call about several rows ran out of fuel, which is no
// failure yet: a policy's fuel is by row.
type errSmaller struct {
	fuel engine.Fuel
	worn bool // it may be the instance's long use
	err  error
}

func (e *errSmaller) Error() string { return e.err.Error() }

// smaller is err as an errSmaller, if fewer rows may do, or a younger instance.
func (s *Sandbox) smaller(err error, rows int) *errSmaller {
	var f *engine.Failure
	if s.retired.Load() || !errors.As(err, &f) || f.Kind != engine.FuelSpent {
		return nil
	}
	if worn := s.worn(err); worn || rows > 1 && s.info.Scope == abi.ScopeRow {
		return &errSmaller{f.Fuel, worn, err}
	}
	return nil
}

// pieces asks about n rows in as many calls as that takes. Together they may
// take so much fuel as an honest policy needs for so many rows: else one that
// burns a whole call for each would hold up a decision for as many calls.
func (s *Sandbox) pieces(ctx context.Context, f engine.Func, n int, ask func(from, to int) (engine.Fuel, error)) error {
	if s.info.Scope != abi.ScopeRow {
		return s.whole(ctx, n, ask)
	}
	spent, most := engine.Fuel(0), engine.Fuel(0)
	for from := 0; from < n; {
		if s.instance != nil {
			most = engine.Shrunk(engine.QuestionBudget(n, s.most), s.instance.MemoryBytes(), s.slots)
		}
		to := from + s.rowsACall(n-from)
		fuel, err := ask(from, to)
		var less *errSmaller
		switch {
		case errors.As(err, &less):
			if fuel = less.fuel; !less.worn {
				s.pace.spent(to - from)
			}
		case err != nil:
			return err
		default:
			s.pace.took(to-from, fuel)
			from = to
		}
		if spent += fuel; spent > most {
			return s.overspent(f, n, spent, most)
		}
		if less != nil {
			if err := s.reopen(ctx, less); err != nil {
				return err
			}
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// whole asks about all rows at once.
func (s *Sandbox) whole(ctx context.Context, n int, ask func(from, to int) (engine.Fuel, error)) error {
	_, err := ask(0, n)
	var worn *errSmaller
	if !errors.As(err, &worn) {
		return err
	}
	if err := s.reopen(ctx, worn); err != nil {
		return err
	}
	_, err = ask(0, n)
	return err
}

func (s *Sandbox) overspent(f engine.Func, n int, spent, most engine.Fuel) error {
	return s.failAt(&engine.Failure{
		Digest: s.module.Digest(), Export: f.String(), Kind: engine.FuelSpent, At: -1, Fuel: spent,
		Err: fmt.Errorf("%d rows get %d together, %d each (%s raises it)", n, most, most/engine.Fuel(n), callLimit),
	}, -1)
}

// reopen builds an instance that knows the pod of the cycle, in place of one whose
// fuel was spent.
func (s *Sandbox) reopen(ctx context.Context, why error) error {
	about := s.about
	s.log.Debug("policy is asked again of a new instance", "err", why)
	s.Close()
	answer, err := s.Pod(ctx, about.rows, about.pod, about.now)
	if err == nil && answer.Ask != abi.AskRows {
		err = s.fail(errors.New("it is asked again about a pod, and answers otherwise"))
	}
	return err
}

// raisable names the field that raises what a call about rows may take.
func raisable(err error) error {
	var f *engine.Failure
	if errors.As(err, &f) && f.Kind == engine.FuelSpent {
		f.Err = fmt.Errorf("%w (%s raises it)", f.Err, callLimit)
	}
	return err
}
