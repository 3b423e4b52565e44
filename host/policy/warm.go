package policy

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// keepWarm tells previous programs what has changed, so that going back to them
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
			l.Log.Debug("previous program is not kept warm", "policy", f.program.Name(), "err", err)
		}
	}
}

// reportTrials writes down what shadows and canaries have counted.
func (l *Loader) reportTrials(ctx context.Context) {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for _, one := range l.policies {
		if d := one.counting(); d != nil && d.News() {
			l.untold = !reporter{&l.Config}.report(ctx, l.Current(), one) || l.untold
		}
	}
}

// idle says why a live controller does not run, empty where it does and for what
// is no controller. Of controllers that are the same, the first by name runs.
func (l *Loader) idle(set *Set, name string) string {
	one := set.policies[name]
	if one == nil || one.version == nil || one.controller == nil || one.mode() == v1alpha1.Off || l.Drives == nil {
		return ""
	}
	for _, former := range set.Controllers() {
		if former.Name() == name || one.mode() == v1alpha1.Shadow {
			break
		}
		if former.Identity() == one.controller.Identity() && former.ServiceAccount() == one.controller.ServiceAccount() {
			return fmt.Sprintf("policy %s is the same module, config and ServiceAccount, and runs", former.Name())
		}
	}
	if err := l.Drives(one.controller); err != nil {
		return err.Error()
	}
	return ""
}

// reportIdle tells of controllers that have begun to run, or run no more, as
// their ServiceAccount's rights change.
func (l *Loader) reportIdle() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	for name, one := range l.policies {
		if one.idle != l.idle(l.Current(), name) {
			signal(l.wake)
			return
		}
	}
}

// retry has policies loaded again that were refused for want of memory, as soon
// as there is some, or that the host could not load, and statuses written again
// that could not be.
func (l *Loader) retry() {
	l.reloading.Lock()
	defer l.reloading.Unlock()
	if l.untold {
		signal(l.wake)
		return
	}
	for _, one := range l.policies {
		m := &one.state.Main
		if m.Stands() == rollout.WaitingForMemory && l.Engine.MemoryAvailable(m.Memory) || one.state.Due(metav1.NewTime(l.Now())) {
			signal(l.wake)
			return
		}
	}
}
