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
	// maxBatch is how many pods one call of a checker judges.
	maxBatch = 256
	// lookEvery is how often the host looks anew for a checker that observes
	// and does not say itself when it wants to be asked again.
	lookEvery = 10 * time.Second
	// maxWriting is how many conditions are written at a time, so that they
	// share the disk's syncs.
	maxWriting = 16
)

// batch is the gates that one checker was asked about.
type batch struct {
	at      *pool
	answers []answer
}

// answer is what became of a gate: when it is due again, if it is, and what its
// checker was told.
type answer struct {
	key   key
	again time.Time
	input *input
}

// item is one gate of one pod in a batch.
type item struct {
	wire.GatePod
	key   key
	late  bool
	input *input
}

// input is what a checker was asked about a gate, so that it is not asked the
// same again.
type input struct {
	checker Checker
	version string // of the pod
	seen    []wire.Observation
	// again is when it wants to be asked again; until is that, or when its
	// answer grows stale.
	again, until time.Time
}

// news says whether there is something to ask: a pod, an observation or a
// checker that is not the one of last time.
func (s *item) news(checker Checker, now time.Time) bool {
	t := s.input
	return t == nil || t.checker != checker || t.version != s.Pod.ResourceVersion || !now.Before(t.until) ||
		!slices.EqualFunc(t.seen, s.Observed, sameSight)
}

func sameSight(a, b wire.Observation) bool {
	return a.Name == b.Name && a.OK == b.OK && a.Code == b.Code
}

// ask has a checker judge, and writes.
func (d *Driver) ask(ctx context.Context, checker Checker, subjects []item) []answer {
	now := d.Now()
	answers := make([]answer, len(subjects))
	pods := make([]wire.GatePod, len(subjects))
	for i := range subjects {
		answers[i].key, pods[i] = subjects[i].key, subjects[i].GatePod
	}
	verdicts := d.judge(ctx, checker, pods, now)
	checkers := d.Checkers()
	var writing errgroup.Group
	writing.SetLimit(maxWriting)
	for i := range subjects {
		s, a := &subjects[i], &answers[i]
		if checkers[s.key.condition] != checker {
			// It was swapped meanwhile. Whatever it said, another has the word.
			a.again = now
			continue
		}
		writing.Go(func() error { d.settle(ctx, s, a, checker, &verdicts[i], now); return nil })
	}
	_ = writing.Wait()
	return answers
}

func earlier(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// settle writes a verdict and notes when to ask again.
func (d *Driver) settle(ctx context.Context, s *item, a *answer, checker Checker, v *abi.Readiness, now time.Time) {
	version, err := d.write(ctx, s, *v, now)
	if err != nil {
		if ctx.Err() == nil {
			d.Log.Warn("write condition", "pod", s.key.pod.String(), "condition", s.Condition, "err", err)
		}
		a.again = now.Add(time.Second)
		return
	}
	a.input = &input{checker: checker, version: version, seen: s.Observed, until: now.Add(stale)}
	switch {
	case v.RequeueAfterNanos > 0:
		a.again = now.Add(time.Duration(v.RequeueAfterNanos))
		a.input.again, a.input.until = a.again, a.again
	case len(checker.Observes()) > 0:
		a.again = now.Add(lookEvery)
	}
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

// write writes a verdict, and returns the version of the pod that its checker
// knows: the one that it judged, or that with nothing but this condition changed.
func (d *Driver) write(ctx context.Context, s *item, v abi.Readiness, now time.Time) (version string, err error) {
	judged := s.Pod.ResourceVersion
	if withCondition(s.Pod, v1.PodConditionType(s.Condition), v, now) == s.Pod {
		return judged, nil
	}
	same := false
	o, err := d.Objects.Update(ctx, store.Key{Resource: "pods", Namespace: s.Pod.Namespace, Name: s.Pod.Name}, func(o store.Object) (store.Object, error) {
		pod, ok := o.(*v1.Pod)
		if !ok || pod.UID != s.Pod.UID {
			return o, nil
		}
		same = pod.ResourceVersion == judged
		return withCondition(pod, v1.PodConditionType(s.Condition), v, now), nil
	})
	if errors.Is(err, store.ErrNotFound) {
		return judged, nil
	}
	if err != nil || !same {
		return judged, err
	}
	return o.GetResourceVersion(), nil
}
