package policy

import (
	"context"
	"sync"
)

// pendingLoad is a program on its way: compiled, opened and told the present state
// beside the live set, so that one slow module holds up no other's swap.
type pendingLoad struct {
	cancel context.CancelFunc
	done   chan struct{}
	one    *version
	err    error
	wanted bool // by the pass that is under way
	// forgotten says that it was cancelled, so that what comes of it tells nothing
	// of the module.
	forgotten bool
}

// backgroundLoads are what loads run under that Load does not wait for.
type backgroundLoads struct {
	ctx   context.Context
	group sync.WaitGroup
	all   map[string]*pendingLoad
	// done is told of each that is done.
	done func()
}

// stop waits for them; the context that they run under has ended.
func (b *backgroundLoads) stop() {
	b.group.Wait()
	for _, c := range b.all {
		c.drop()
	}
}

func (c *pendingLoad) drop() {
	c.cancel()
	if c.one != nil {
		c.one.end()
	}
}

// fetch loads something under a name, or tells that it is not done yet. Without
// background loads it is waited for.
func (b *backgroundLoads) fetch(ctx context.Context, name string, load func(context.Context) (*version, error)) (one *version, err error, done bool) {
	if b == nil {
		return await(ctx, name, load)
	}
	c := b.all[name]
	if c != nil && c.forgotten && c.isDone() {
		c.drop()
		c = nil
	}
	if c == nil {
		c = b.start(name, load)
	}
	c.wanted = true
	if c.forgotten || !c.isDone() {
		return nil, nil, false
	}
	c.cancel()
	delete(b.all, name)
	return c.one, c.err, true
}

func (b *backgroundLoads) start(name string, load func(context.Context) (*version, error)) *pendingLoad {
	c := &pendingLoad{done: make(chan struct{})}
	var own context.Context
	own, c.cancel = context.WithCancel(b.ctx)
	b.all[name] = c
	b.group.Go(func() {
		c.one, c.err = load(own)
		close(c.done)
		b.done()
	})
	return c
}

func (c *pendingLoad) isDone() bool {
	select {
	case <-c.done:
		return true
	default:
		return false
	}
}

// await is fetch that is done when it returns.
func await(ctx context.Context, _ string, load func(context.Context) (*version, error)) (one *version, err error, done bool) {
	one, err = load(ctx)
	return one, err, true
}

// forgetUnwanted drops what was asked for once and no longer is.
func (b *backgroundLoads) forgetUnwanted() {
	if b == nil {
		return
	}
	for name, c := range b.all {
		if c.wanted {
			c.wanted = false
			continue
		}
		c.cancel()
		c.forgotten = true
		if c.isDone() { // or else the next pass will
			c.drop()
			delete(b.all, name)
		}
	}
}
