package gate

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
)

const (
	// batch is how many pods one call of a checker judges.
	batch = 256
	// lookEvery is how often the host looks anew for a checker that observes
	// and does not say itself when it wants to be asked again.
	lookEvery = 10 * time.Second
	// mostLooking is how many network attempts a checker has under way.
	mostLooking = 64
	// mostWriting is how many conditions are written at a time, so that they
	// share the disk's syncs.
	mostWriting = 16
)

// round is one batch of gates that one checker was asked about.
type round struct {
	checker Checker
	answers []answer
}

// answer is what became of a gate: when it is due again, if it is, and what its
// checker was told.
type answer struct {
	key   key
	again time.Time
	told  *told
}

// subject is one gate of one pod in a round.
type subject struct {
	wire.GatePod
	key  key
	told *told
}

// told is what a checker was asked about a gate, so that it is not asked the
// same again.
type told struct {
	checker Checker
	version string // of the pod
	seen    []wire.Observation
	// until is when it wants to be asked again, or its answer grows stale.
	until time.Time
}

// news says whether there is something to ask: a pod, an observation or a
// checker that is not the one of last time.
func (s *subject) news(checker Checker, now time.Time) bool {
	t := s.told
	return t == nil || t.checker != checker || t.version != s.Pod.ResourceVersion || !now.Before(t.until) ||
		!slices.EqualFunc(t.seen, s.Observed, sameSight)
}

func sameSight(a, b wire.Observation) bool {
	return a.Name == b.Name && a.OK == b.OK && a.Code == b.Code
}

// atATime is how many pods are looked at at once: a pod has as many attempts
// under way as things are wanted of it.
func atATime(wants []abi.Observe) int { return max(mostLooking/max(len(wants), 1), 1) }

// batchOf is how many pods a round has, few enough that endpoints which do not
// answer cannot make it long.
func batchOf(wants []abi.Observe) int { return min(4*atATime(wants), batch) }

// ask looks at what the checker wants to know, has it judge, and writes.
func (d *Driver) ask(ctx context.Context, checker Checker, subjects []subject) round {
	wants := checker.Observes()
	d.observe(ctx, wants, subjects)
	now := d.Now()
	r := round{checker: checker, answers: make([]answer, len(subjects))}
	var asked []int
	var pods []wire.GatePod
	for i := range subjects {
		s, a := &subjects[i], &r.answers[i]
		a.key, a.told = s.key, s.told
		if len(wants) > 0 && !s.news(checker, now) {
			a.again = earlier(s.told.until, now.Add(lookEvery))
			continue
		}
		asked, pods = append(asked, i), append(pods, s.GatePod)
	}
	if len(asked) == 0 {
		return r
	}
	verdicts := d.judge(ctx, checker, pods, now)
	checkers := d.Checkers()
	var writing errgroup.Group
	writing.SetLimit(mostWriting)
	for n, i := range asked {
		s, a := &subjects[i], &r.answers[i]
		if checkers[s.key.condition] != checker {
			// It was swapped meanwhile. Whatever it said, another has the word.
			a.told, a.again = nil, now
			continue
		}
		writing.Go(func() error { d.settle(ctx, s, a, checker, &verdicts[n], now); return nil })
	}
	_ = writing.Wait()
	return r
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// settle writes a verdict and notes when to ask again.
func (d *Driver) settle(ctx context.Context, s *subject, a *answer, checker Checker, v *abi.Readiness, now time.Time) {
	a.told = &told{checker: checker, version: s.Pod.ResourceVersion, seen: s.Observed, until: now.Add(stale)}
	switch {
	case v.AskAgainNanos > 0:
		a.again = now.Add(time.Duration(v.AskAgainNanos))
		a.told.until = a.again
	case len(checker.Observes()) > 0:
		a.again = now.Add(lookEvery)
	}
	if err := d.write(ctx, s, *v, now); err != nil && ctx.Err() == nil {
		d.Log.Warn("write condition", "pod", s.key.pod.String(), "condition", s.Condition, "err", err)
		a.told, a.again = nil, now.Add(time.Second)
	}
}

// observe looks at some pods at a time: attempts that get no answer take long.
func (d *Driver) observe(ctx context.Context, wants []abi.Observe, subjects []subject) {
	if len(wants) == 0 || d.Observe == nil {
		return
	}
	var group errgroup.Group
	group.SetLimit(atATime(wants))
	for i := range subjects {
		group.Go(func() error {
			subjects[i].Observed = d.Observe(ctx, subjects[i].Pod, wants)
			return nil
		})
	}
	_ = group.Wait()
}

// judge asks the guest, and says Unknown where it fails.
func (d *Driver) judge(ctx context.Context, checker Checker, pods []wire.GatePod, now time.Time) []abi.Readiness {
	verdicts, err := checker.Judge(ctx, now.UnixNano(), pods)
	if err == nil && len(verdicts) != len(pods) {
		err = fmt.Errorf("%d answers for %d pods", len(verdicts), len(pods))
	}
	if err == nil {
		return verdicts
	}
	d.Log.Warn("judge gates", "policy", checker.Name(), "err", err)
	return slices.Repeat([]abi.Readiness{wire.Failed(err)}, len(pods))
}

func (d *Driver) write(ctx context.Context, s *subject, v abi.Readiness, now time.Time) error {
	if withCondition(s.Pod, v1.PodConditionType(s.Condition), v, now) == s.Pod {
		return nil
	}
	_, err := d.Objects.Update(ctx, store.Key{Resource: "pods", Namespace: s.Pod.Namespace, Name: s.Pod.Name}, func(o store.Object) (store.Object, error) {
		pod, ok := o.(*v1.Pod)
		if !ok || pod.UID != s.Pod.UID {
			return o, nil
		}
		return withCondition(pod, v1.PodConditionType(s.Condition), v, now), nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return nil
	}
	return err
}
