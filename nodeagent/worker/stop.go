package worker

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// leastGrace is what a sidecar gets even when the others used up the grace.
const leastGrace = 2 * time.Second

// Services send a pod that was deleted connections until all nodes know it. Its
// containers serve on until this one knows, for withdrawnWithin at most, and then
// for as long as others may need.
const (
	withdrawnWithin = 2 * time.Second
	othersKnow      = 500 * time.Millisecond
)

func (w *worker) stopContainer(ctx context.Context, r *pod.Record, a pod.Action) outcome {
	c, ok := r.Spec(a.Container)
	if !ok {
		return func(*pod.Record, time.Time) {}
	}
	if err := w.end(ctx, r, c, time.Now().Add(a.Grace), a.Reason); err != nil {
		return failed(err)
	}
	return w.look()
}

// end runs the preStop hook and stops a container by the deadline: before it, when
// what is to end first has ended.
func (w *worker) end(ctx context.Context, r *pod.Record, c pod.Spec, deadline time.Time, reason string, first ...<-chan struct{}) error {
	s := r.Containers[c.Name]
	if reason == "" {
		reason = "Stopping container " + c.Name
	}
	w.containerEvent(r, c.Name, v1.EventTypeNormal, "Killing", "%s", reason)
	if c.Lifecycle != nil && c.Lifecycle.PreStop != nil && time.Until(deadline) > 0 {
		hook, cancel := context.WithDeadline(ctx, deadline)
		err := w.hook(hook, r, c, s.ID, c.Lifecycle.PreStop)
		cancel()
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if err != nil {
			w.containerEvent(r, c.Name, v1.EventTypeWarning, "FailedPreStopHook", "PreStopHook failed: %v", err)
		}
	}
	turn, cancel := context.WithDeadline(ctx, deadline)
	for _, ended := range first {
		select {
		case <-ended:
		case <-turn.Done():
		}
	}
	cancel()
	grace := max(time.Until(deadline), 0)
	if grace < leastGrace && deadline.After(r.KillSince) {
		grace = leastGrace // the hook used it up; still the process may say goodbye
	}
	ctx, cancel = context.WithTimeout(ctx, grace+answerWithin)
	defer cancel()
	return w.Runtime.StopContainer(ctx, s.ID, grace)
}

// stopAll ends all that runs, side by side; sidecars get their signals when the regular
// containers have ended, in reverse order.
func (w *worker) stopAll(ctx context.Context, r *pod.Record) outcome {
	deadline := r.Deadline()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	withdrawn := w.withdraw(ctx, r)
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		errs  []error
		first []<-chan struct{} // closed as those end that come before the next sidecar
	)
	for _, c := range slices.Backward(r.Specs()) {
		if r.Containers[c.Name].Phase != pod.Running {
			continue
		}
		before := []<-chan struct{}{withdrawn}
		ended := make(chan struct{})
		if c.Kind == pod.Sidecar {
			before = append(before, first...)
		}
		if c.Kind == pod.Sidecar || c.Kind == pod.Regular {
			first = append(first, ended)
		}
		wg.Go(func() {
			defer close(ended)
			if err := w.end(ctx, r, c, deadline, "", before...); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, err)
			}
		})
	}
	wg.Wait()
	err := errors.Join(errs...)
	if ctx.Err() != nil {
		return func(*pod.Record, time.Time) {} // cut short by a shorter grace, or by the agent's end
	}
	if err != nil {
		return w.cannotKill(r, err)
	}
	return w.look()
}

// withdraw gives what is closed when a deleted pod gets no connections any more.
func (w *worker) withdraw(ctx context.Context, r *pod.Record) <-chan struct{} {
	done := make(chan struct{})
	if w.Services == nil || r.Pod.DeletionTimestamp == nil {
		close(done)
		return done
	}
	go func() {
		defer close(done)
		bound, cancel := context.WithTimeout(ctx, withdrawnWithin)
		defer cancel()
		if !w.Services.Withdrawn(bound, r.Pod) {
			return
		}
		if bound.Err() != nil && ctx.Err() == nil {
			w.Log.Info("a pod ends though services may still send to it", "pod", r.Pod.Name, "namespace", r.Pod.Namespace, "after", withdrawnWithin)
		}
		select {
		case <-ctx.Done():
		case <-time.After(othersKnow):
		}
	}()
	return done
}

// look lists the runtime, so that an end is known before the next decision.
func (w *worker) look() outcome {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	all, err := w.Runtime.List(ctx)
	if err != nil {
		return failed(err)
	}
	l := ByPod(all)[w.uid]
	message := w.messages(l)
	return func(r *pod.Record, now time.Time) { r.ObserveExits(l, message, now) }
}
