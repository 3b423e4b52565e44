package policy

import (
	"context"
	"errors"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// reopen opens the programs of a set once more, in sandboxes of their own.
func (l *Loader) reopen(ctx context.Context, s *Set) (*framework.LiveSet, func(), error) {
	f := l.newReopener(ctx)
	set := assemble(s.Number, s.policies, s.profiles, f.open).Scheduling
	if f.err != nil {
		f.release()
		return nil, nil, f.err
	}
	return set, f.release, nil
}

// reopener opens programs in sandboxes that nobody else asks.
type reopener struct {
	borrow func(*sandbox.Program) (*sandbox.Program, error)
	opened map[*sandbox.Program]*sandbox.Sandbox
	err    error // of the programs that cannot be had any more
}

func (l *Loader) newReopener(ctx context.Context) *reopener {
	return &reopener{
		borrow: func(p *sandbox.Program) (*sandbox.Program, error) { return l.borrow(ctx, p) },
		opened: map[*sandbox.Program]*sandbox.Sandbox{},
	}
}

func (f *reopener) open(v *version) (main, verifier *sandbox.Sandbox) {
	box := f.opened[v.program]
	if box != nil {
		return box, nil
	}
	p, err := f.borrow(v.program)
	if err != nil {
		f.err = errors.Join(f.err, err)
		return sandbox.New(v.program), nil
	}
	box = sandbox.New(p).Aside(p.Health().Copy())
	f.opened[v.program] = box
	return box, nil
}

func (f *reopener) release() {
	for _, box := range f.opened {
		box.Close()
		box.Release()
	}
}
