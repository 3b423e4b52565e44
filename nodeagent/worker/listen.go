package worker

import (
	"context"
	"slices"
	"time"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/probe"
)

const (
	// listensWithin is how long a pod that nobody asks whether it is ready may take
	// to listen at the ports that services send to. Then it is ready all the same.
	listensWithin = 2 * time.Second
	// It is looked at ever less often.
	firstLook, lastLook = 5 * time.Millisecond, 100 * time.Millisecond
)

// ports are those of a pod without probes that services send to: where somebody asks
// whether it is ready, the answer counts alone.
func (w *worker) ports(r *pod.Record) []uint16 {
	if w.Services == nil || r.Pod.Spec.HostNetwork {
		return nil
	}
	for _, c := range r.Specs() {
		if c.ReadinessProbe != nil || c.StartupProbe != nil {
			return nil
		}
	}
	return w.Services.Ports(r.Pod)
}

// awaitListeners has containers that nobody asks be ready when their pod listens.
func (w *worker) awaitListeners(ctx context.Context, r *pod.Record) {
	for _, c := range r.Specs() {
		s := r.Containers[c.Name]
		if c.Kind != pod.Regular || s.Phase != pod.Running || !s.Started || s.Ready || c.ReadinessProbe != nil || w.awaited[c.Name] == s.ID {
			continue
		}
		w.awaited[c.Name] = s.ID
		go func() {
			if missing := w.untilListens(ctx, r, s.StartedAt.Add(listensWithin)); len(missing) > 0 && ctx.Err() == nil {
				w.Log.Info("a pod is ready though it does not listen where services send to", "pod", r.Pod.Name, "namespace", r.Pod.Namespace,
					"ports", missing, "after", listensWithin)
			}
			if ctx.Err() == nil { // the next agent waits on
				w.probed(c.Name, s.ID, probe.Standing{Started: true, Ready: true})
			}
		}()
	}
}

// untilListens waits until a pod listens at the ports that services send to. It gives
// those at which it does not by then.
func (w *worker) untilListens(ctx context.Context, r *pod.Record, deadline time.Time) (missing []uint16) {
	ctx, cancel := context.WithDeadline(ctx, deadline)
	defer cancel()
	ports := w.ports(r)
	for wait := firstLook; ; wait = min(2*wait, lastLook) {
		has, err := w.Network.Listeners(NetworkID(w.uid, r.Sandbox.Attempt))
		if err != nil {
			w.Log.Debug("see where a pod listens", "pod", r.Pod.Name, "namespace", r.Pod.Namespace, "err", err)
			return nil
		}
		missing = slices.DeleteFunc(slices.Clone(ports), func(p uint16) bool { return slices.Contains(has, p) })
		if len(missing) == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return missing
		case <-time.After(wait):
		}
	}
}
