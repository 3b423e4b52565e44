package controller

import (
	"context"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// apply does what the guest wants in one commit: adopt, release, patch, delete,
// create, status. Creations that are refused are left out, and told of; any
// other refusal drops the answer. Of an answer that is too large for a commit a
// part is done, and the guest is asked again about what is left.
func (d *Driver) apply(ctx context.Context, g *gathered, out *abi.ReconcileResult) (*plan, error) {
	p := &plan{d: d, gathered: g, out: out}
	err := p.write(ctx)
	for errors.Is(err, store.ErrTooLarge) {
		if p = p.smaller(); p == nil {
			return nil, tooLarge(out)
		}
		if err = p.write(ctx); err == nil && p.empty && p.refused == "" {
			return nil, tooLarge(out)
		}
	}
	if err != nil {
		return nil, err
	}
	for _, e := range p.events {
		d.event(ctx, e.about, e.kind, e.reason, e.message)
	}
	for _, e := range p.out.Events {
		about := g.parent
		if named, ok := g.byUID[e.About]; ok {
			about = named.o
		}
		d.event(ctx, about, e.Type, e.Reason, e.Message)
	}
	return p, nil
}

// write stores what the answer wants, or nothing of it. It gives back what it
// reserved in a panic too: an object that a guest made up may be one that nobody
// thought of.
func (p *plan) write(ctx context.Context) error {
	p.tx, p.empty = p.d.Writer.Begin(), true
	stored := false
	defer func() {
		if !stored {
			p.tx.Rollback()
		}
	}()
	if err := p.add(ctx, p.out); err != nil || p.empty {
		return err
	}
	p.records = p.tx.Len()
	p.takesAway(p.out)
	name := nameOf(p.parent)
	p.d.pace.wrote(name, p.records, p.objects)
	var err error
	p.stored, err = p.tx.Commit(ctx)
	if stored = err == nil; !stored {
		p.d.pace.wrote(name, -p.records, false)
	}
	if errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrExists) || errors.Is(err, store.ErrNotFound) {
		return errStale
	}
	return err
}

// smaller is a part of a plan that was too large, half as many of its adoptions,
// releases, deletions and creations, or nil if that is none. Each of them is right
// without the others. Patches and the status are not: the one may count what the
// others let go. They are left for a later answer, with all else that would tell
// of what is not done.
func (p *plan) smaller() *plan {
	half := p.records / 2
	if p.most > 0 {
		half = min(p.records, p.most) / 2
	}
	if half == 0 {
		return nil
	}
	out := &abi.ReconcileResult{Adopt: p.out.Adopt, Release: p.out.Release, Delete: p.out.Delete, Create: p.out.Create}
	return &plan{d: p.d, gathered: p.gathered, out: out, most: half, unfinished: true}
}

// full tells whether a part of an answer is as large as it may be.
func (p *plan) full() bool { return p.most > 0 && p.tx.Len() >= p.most }

// each does something with every item of an answer, or with those of its part.
func each[T any](p *plan, items []T, do func(*T) error) error {
	for i := range items {
		if p.full() {
			return nil
		}
		if err := do(&items[i]); err != nil {
			return err
		}
	}
	return nil
}

func tooLarge(out *abi.ReconcileResult) error {
	return fmt.Errorf("the answer is too large for one commit, and no smaller part of it can be done alone: its %d patches and the parent's status belong together; the guest has to write fewer or smaller objects in one answer", len(out.Patch))
}
