package policy

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// pendingLoad is a program on its way: compiled, opened and told the present state
// beside the live set, so that one slow module holds up no other's swap.
type pendingLoad struct {
	cancel context.CancelFunc
	done   chan struct{}
	one    *version
	err    error
	wanted bool // by the pass that is under way
}

// backgroundLoads are what loads run under that Load does not wait for.
type backgroundLoads struct {
	ctx   context.Context
	group sync.WaitGroup
	all   map[string]*pendingLoad
}

// loadBeside has later loads run in goroutines of their own.
func (l *Loader) loadBeside(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	l.background = &backgroundLoads{ctx: ctx, all: map[string]*pendingLoad{}}
}

// stopLoading waits for them; the context that they run under has ended.
func (l *Loader) stopLoading() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	l.background.group.Wait()
	for _, c := range l.background.all {
		c.drop()
	}
	l.background = nil
}

func (c *pendingLoad) drop() {
	c.cancel()
	if c.one != nil {
		c.one.end()
	}
}

// fetch loads something under a name, or tells that it is not done yet.
func (l *Loader) fetch(ctx context.Context, name string, load func(context.Context) (*version, error)) (one *version, err error, done bool) {
	if l.background == nil {
		return l.await(ctx, name, load)
	}
	c := l.background.all[name]
	if c == nil {
		c = &pendingLoad{done: make(chan struct{})}
		var own context.Context
		own, c.cancel = context.WithCancel(l.background.ctx)
		l.background.all[name] = c
		l.background.group.Go(func() {
			c.one, c.err = load(own)
			close(c.done)
			signal(l.wake)
		})
	}
	c.wanted = true
	select {
	case <-c.done:
		c.cancel()
		delete(l.background.all, name)
		return c.one, c.err, true
	default:
		return nil, nil, false
	}
}

// await is fetch that is done when it returns.
func (l *Loader) await(ctx context.Context, _ string, load func(context.Context) (*version, error)) (one *version, err error, done bool) {
	one, err = load(ctx)
	return one, err, true
}

// forgetUnwanted drops what was asked for once and no longer is.
func (l *Loader) forgetUnwanted() {
	if l.background == nil {
		return
	}
	for name, c := range l.background.all {
		if c.wanted {
			c.wanted = false
			continue
		}
		c.cancel()
		select {
		case <-c.done:
			c.drop()
			delete(l.background.all, name)
		default: // the next pass will
		}
	}
}

// maxPatience is how long a load waits for the scheduler's state.
const maxPatience = time.Second

// present is the scheduler's state; nil where there is none.
func (l *Loader) present(ctx context.Context) snapshot.Log {
	if l.Present == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, maxPatience)
	defer cancel()
	log, err := l.Present(ctx)
	if err != nil {
		return nil
	}
	return log
}

// follows brings a program that no cycle asks up to the present state.
func (l *Loader) follows(ctx context.Context, one *version, object *v1alpha1.Policy) error {
	if one.gate != nil || one.controller != nil || object.ModeOf() == v1alpha1.Off {
		return nil
	}
	if log := l.present(ctx); log != nil {
		return one.follow(ctx, log)
	}
	return nil
}

func (o *version) follow(ctx context.Context, log snapshot.Log) error {
	if o.verifier == nil {
		return o.main.Follow(ctx, log)
	}
	verified := make(chan error, 1)
	go func() { verified <- o.verifier.Follow(ctx, log) }()
	err := o.main.Follow(ctx, log)
	if other := <-verified; err == nil && !errors.Is(other, sandbox.ErrMemoryReclaimed) {
		err = other
	}
	return err
}

// closeAll gives back what a program holds that never went live.
func (o *version) closeAll() {
	o.main.Close()
	if o.verifier != nil {
		o.verifier.Close()
	}
}

// keepWarm tells former programs what has changed, so that going back to them
// costs no more than a pointer.
func (l *Loader) keepWarm(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	var former []*version
	for _, one := range l.policies {
		for _, f := range one.previous {
			if f.gate == nil && f.controller == nil && f.main.IsOpen() {
				former = append(former, f)
			}
		}
	}
	if len(former) == 0 {
		return
	}
	// Whatever cycle still asked them when they left has ended once this is there.
	log := l.present(ctx)
	if log == nil {
		return
	}
	for _, f := range former {
		if err := f.follow(ctx, log); err != nil {
			l.Log.Debug("former program is not kept warm", "policy", f.program.Name(), "err", err)
		}
	}
}
