package policy

import (
	"context"

	"github.com/berth-dev/berth/host/policy/rollout"
)

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
	log := l.programs.present(ctx)
	if log == nil {
		return
	}
	for _, f := range former {
		if err := f.follow(ctx, log); err != nil {
			l.Log.Debug("former program is not kept warm", "policy", f.program.Name(), "err", err)
		}
	}
}

// reportTrials writes down what shadows and canaries have counted.
func (l *Loader) reportTrials(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if d := one.counting(); d != nil && d.News() {
			reporter{&l.Config}.report(ctx, l.Current(), one)
		}
	}
}

// retryForMemory has policies loaded again that were refused for want of memory, as
// soon as there is some.
func (l *Loader) retryForMemory() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if m := &one.state.Main; m.Stands() == rollout.WaitingForMemory && l.Engine.MemoryAvailable(m.Memory) {
			signal(l.wake)
			return
		}
	}
}
