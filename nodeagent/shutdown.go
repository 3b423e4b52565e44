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
	shutdownRefusal = "Pod was rejected: Pod was rejected as the node is shutting down."
	shutdownReady   = "node is shutting down"
)

var shutdownVerdict = pod.Verdict{
	Reason: "Terminated", Message: "Pod was terminated in response to imminent node shutdown.",
	Disruption: v1.PodReasonTerminationByKubelet,
}

// killWithin is how long the runtime may take over a kill.
const killWithin = 3 * time.Second

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

// Reopen takes a shutdown back: the Node is ready, and takes pods again.
func (a *Agent) Reopen(ctx context.Context) error {
	a.closing.Store(false)
	ctx, cancel := context.WithTimeout(ctx, tellWithin)
	defer cancel()
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
	deadline := time.NewTimer(grace + killWithin)
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

// endNow tells pods of a group to end, and counts those of which something is left.
func (a *Agent) endNow(wanted bool, grace time.Duration) (left int) {
	told := map[string]time.Duration{}
	a.pool.Each(func(r *pod.Record) {
		if criticalByPriority(r.Pod) != wanted || r.Down() {
			return
		}
		left++
		if !r.Finished() {
			told[string(r.Pod.UID)] = min(r.Grace(), grace)
		}
	})
	for uid, grace := range told {
		a.pool.End(uid, shutdownVerdict, grace)
	}
	return left
}
