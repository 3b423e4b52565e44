package nodeagent

import (
	"context"
	"errors"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
)

// What pods and the Node are told of a shutdown, in the kubelet's words.
const (
	shutdownMessage = "Pod was terminated in response to imminent node shutdown."
	shutdownRefusal = "Pod was rejected: Pod was rejected as the node is shutting down."
	shutdownReady   = "node is shutting down"
)

// stoppedEvery is how often a shutdown looks whether the pods have ended.
const stoppedEvery = 50 * time.Millisecond

// tellWithin bounds how long a shutdown waits for the API.
const tellWithin = 10 * time.Second

// Grace is how long pods may take to end in a shutdown.
type Grace struct {
	// Total is for all pods, Critical the part of it that is kept for those of
	// priority system-cluster-critical and above (kubelet: shutdownGracePeriod,
	// shutdownGracePeriodCriticalPods).
	Total, Critical time.Duration
}

// Shutdown ends the pods while Run works: the Node is not ready from now on, new
// pods are refused, and those that run end by their own grace, as far as that of
// the shutdown goes: critical ones when the others have ended. It returns when
// the API knows, or when the time is up.
func (a *Agent) Shutdown(ctx context.Context, grace Grace) error {
	a.closing.Store(true)
	a.log.Info("the node shuts down: its pods end", "grace", grace.Total, "critical", grace.Critical)
	tell, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	err := a.keeper.Report(tell)
	for _, group := range []struct {
		critical bool
		grace    time.Duration
	}{{false, grace.Total - grace.Critical}, {true, grace.Critical}} {
		err = errors.Join(err, a.endGroup(ctx, group.critical, group.grace))
	}
	return errors.Join(err, a.flush(ctx))
}

// Resume takes pods again after a shutdown that was called off.
func (a *Agent) Resume(ctx context.Context) error {
	a.closing.Store(false)
	return a.keeper.Report(ctx)
}

// flush tells the API the last statuses.
func (a *Agent) flush(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
	return a.status.Flush(ctx)
}

// endGroup ends the pods that are critical, or those that are not, and waits for
// their end. What still runs when the time is up is killed by then.
func (a *Agent) endGroup(ctx context.Context, wanted bool, grace time.Duration) error {
	deadline := time.NewTimer(grace + time.Second) // a kill takes its time, too
	defer deadline.Stop()
	tick := time.NewTicker(stoppedEvery)
	defer tick.Stop()
	for a.endNow(wanted, grace) > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-deadline.C:
			a.log.Warn("pods have not ended in time", "critical", wanted, "grace", grace)
			return nil
		case <-tick.C:
		}
	}
	return nil
}

// endNow tells pods of a group to end, and counts those that have not ended yet.
func (a *Agent) endNow(wanted bool, grace time.Duration) (left int) {
	var told []*v1.Pod
	a.pool.Each(func(r *pod.Record) {
		switch {
		case critical(r.Pod) != wanted, r.Terminating() && !r.Touched:
		case r.Terminating():
			left++
		case !r.Finished():
			left++
			told = append(told, r.Pod)
		}
	})
	verdict := pod.Verdict{Reason: "Terminated", Message: shutdownMessage, Disruption: v1.PodReasonTerminationByKubelet}
	for _, p := range told {
		own := 30 * time.Second
		if s := p.Spec.TerminationGracePeriodSeconds; s != nil {
			own = time.Duration(*s) * time.Second
		}
		a.pool.End(string(p.UID), verdict, max(min(own, grace), 0))
	}
	return left
}
