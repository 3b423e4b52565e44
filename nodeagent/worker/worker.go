package worker

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// worker looks after one pod. It is large because each step that a pod may need is a
// method, and all of them need the same pod's state; which comes next is nodeagent/pod's
// to say.
type worker struct {
	*Deps
	uid string
	// came is which pod it is, by when it came; turns has them go in that order.
	came   uint64
	turns  *turns
	relist func()
	// others gives the other pods that hold resources.
	others func(uid string) []*v1.Pod
	wake   chan struct{}

	mu  sync.Mutex
	rec *pod.Record
	// acted is when the last action ended; listings from before are stale.
	acted time.Time
	// flight is the action under way.
	flight *flight
	// seen is the listing that was applied last; missed says that one was not,
	// because an action was under way.
	seen   string
	missed bool
	// finished: the pod is gone from API and machine.
	finished bool

	// Owned by the worker's goroutine.
	launch   func() // begins the action that is due, once the record is written
	reported v1.PodStatus
	version  string
	backoffs map[string]time.Time
	saved    []byte
	// awaited are the runs that are waited for to listen, by container.
	awaited map[string]string
	done    chan outcome
}

type flight struct {
	action   pod.Action
	deadline time.Time
	cancel   context.CancelFunc
	starting bool
}

// outcome notes in the record how an action went.
type outcome func(r *pod.Record, now time.Time)

// newWorker gives a pod's worker; p.mu is held.
func newWorker(d *Deps, rec *pod.Record, p *Pool) *worker {
	p.came++
	return &worker{Deps: d, uid: string(rec.Pod.UID), came: p.came, turns: p.turns, rec: rec, relist: p.Relist, others: p.others,
		backoffs: map[string]time.Time{}, awaited: map[string]string{}, wake: make(chan struct{}, 1), done: make(chan outcome, 1)}
}

// change applies f to the record and looks again at what is due.
func (w *worker) change(f func(r *pod.Record)) {
	w.mu.Lock()
	f(w.rec)
	w.interrupt()
	w.mu.Unlock()
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// interrupt cancels an action that is no longer wanted; w.mu is held.
func (w *worker) interrupt() {
	f := w.flight
	if f == nil || !w.rec.Terminating() {
		return
	}
	if f.starting || f.action.Kind == pod.StopAll && w.rec.Deadline().Before(f.deadline) {
		f.cancel()
	}
}

// observe brings in a listing that was begun at the time began.
func (w *worker) observe(l runtime.Listing, began time.Time) {
	var left leftovers
	key := fingerprint(l)
	w.mu.Lock()
	known := w.seen == key && w.flight == nil && !w.missed
	w.mu.Unlock()
	if known {
		return
	}
	message := w.messages(l)
	var acted time.Time
	w.change(func(r *pod.Record) {
		acted = w.acted
		if w.flight != nil || !began.After(w.acted) {
			r.ObserveExits(l, message, time.Now())
			w.missed = true
			return
		}
		w.seen, w.missed = key, false
		left.containers, left.sandboxes = r.Observe(l, message, time.Now())
	})
	w.sweep(left)
	if !began.After(acted) {
		w.relist() // an action ended while the runtime was being listed
	}
}

// fingerprint tells apart listings that mean different things to a worker.
func fingerprint(l runtime.Listing) string {
	parts := make([]string, 1, 1+len(l.Sandboxes)+len(l.Containers)) // never empty, even for an empty listing
	parts[0] = "listing"
	for _, s := range l.Sandboxes {
		parts = append(parts, s.ID+" "+string(s.State))
	}
	for _, c := range l.Containers {
		parts = append(parts, c.ID+" "+string(c.State))
	}
	slices.Sort(parts)
	return strings.Join(parts, "\n")
}

type leftovers struct{ containers, sandboxes []string }

// sweep removes what belongs to the pod but to no run of it.
func (w *worker) sweep(left leftovers) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for _, id := range left.containers {
		if err := w.Runtime.RemoveContainer(ctx, id); err != nil {
			w.Log.Warn("remove leftover container", "container", id, "err", err)
		}
	}
	for _, id := range left.sandboxes {
		if err := w.Runtime.RemoveSandbox(ctx, id); err != nil {
			w.Log.Warn("remove leftover sandbox", "sandbox", id, "err", err)
		}
	}
}

// run works until the pod is gone (true) or ctx ends. Then the pod's containers
// go on.
func (w *worker) run(ctx context.Context) (finished bool) {
	defer w.dropProbes()
	for {
		action, wake := w.next(ctx)
		if action == finishedKind {
			return true
		}
		w.awaitListeners(ctx, w.publish())
		if w.launch != nil { // what it changes is written down by now, should we be killed in it
			w.launch()
			w.launch = nil
		}
		var timer <-chan time.Time
		var t *time.Timer
		if !wake.IsZero() {
			t = time.NewTimer(max(time.Until(wake), time.Millisecond))
			timer = t.C
		}
		select {
		case <-ctx.Done():
			w.settle()
			return false
		case <-w.wake:
		case <-timer:
		case note := <-w.done:
			w.land(note)
		}
		if t != nil {
			t.Stop()
		}
	}
}

const finishedKind pod.ActionKind = "finished"

// land notes an action's outcome.
func (w *worker) land(note outcome) {
	w.mu.Lock()
	now := time.Now()
	note(w.rec, now)
	w.flight, w.acted, w.seen = nil, now, ""
	again := w.missed
	w.mu.Unlock()
	if again {
		w.relist()
	}
}

// settle waits for the action under way, which its context has ended, so that
// what it made is written down.
func (w *worker) settle() {
	w.mu.Lock()
	busy := w.flight != nil
	w.mu.Unlock()
	if busy {
		w.land(<-w.done)
	}
	w.publish()
}

// next prepares the action that is due, if none is under way.
func (w *worker) next(ctx context.Context) (pod.ActionKind, time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.finished {
		return finishedKind, time.Time{}
	}
	if w.flight != nil {
		return pod.None, time.Time{}
	}
	ended := w.rec.Ended
	a := w.rec.Next(time.Now())
	if ended == nil && w.rec.Ended != nil { // by its own deadline
		w.event(w.rec, v1.EventTypeNormal, w.rec.Ended.Reason, "%s", w.rec.Ended.Message)
	}
	w.tellBackoffs()
	if a.Kind == pod.None || ctx.Err() != nil {
		return a.Kind, a.Wake
	}
	act, cancel := context.WithCancel(ctx)
	w.flight = &flight{action: a, deadline: w.rec.Deadline(), cancel: cancel,
		starting: a.Kind == pod.SetUp || a.Kind == pod.StartSandbox || a.Kind == pod.StartContainer || a.Kind == pod.StopContainer}
	if a.Kind == pod.StartSandbox {
		w.rec.Sandbox.Dirty = true
	}
	if a.Kind == pod.SetUp {
		w.rec.Touched = true
	}
	view := w.rec.Clone()
	w.launch = func() {
		go func() {
			defer cancel()
			w.done <- w.act(act, a, view)
		}()
	}
	return pod.None, time.Time{}
}

// tellBackoffs makes an event for each wait that begins; w.mu is held, and the
// recorder only queues.
func (w *worker) tellBackoffs() {
	for name, c := range w.rec.Containers {
		if c.Wait == nil || c.Wait.Again.Equal(w.backoffs[name]) {
			continue
		}
		switch c.Wait.Reason {
		case "CrashLoopBackOff":
			w.containerEvent(w.rec, name, v1.EventTypeWarning, "BackOff", "Back-off restarting failed container %s in pod %s_%s(%s)",
				name, w.rec.Pod.Name, w.rec.Pod.Namespace, w.uid)
		case "ImagePullBackOff":
			w.containerEvent(w.rec, name, v1.EventTypeNormal, "BackOff", "Back-off pulling image %q", c.Wait.Image)
		default:
			continue
		}
		w.backoffs[name] = c.Wait.Again
	}
}

// publish writes down and reports what changed. It works on a copy, which it gives:
// whoever asks for the record waits for neither disk nor prober.
func (w *worker) publish() *pod.Record {
	w.mu.Lock()
	st := w.rec.Status(w.Host, time.Now())
	rec := w.rec.Clone()
	w.mu.Unlock()
	w.syncProbes(rec)
	if err := w.save(rec); err != nil {
		w.Log.Error("keep the pod's record", "pod", w.uid, "err", err)
	}
	// A new version may have lost what we told: the writer compares.
	if rec.Gone || rec.Pod.ResourceVersion == w.version && apiequality.Semantic.DeepEqual(st, w.reported) {
		return rec
	}
	w.reported, w.version = st, rec.Pod.ResourceVersion
	w.Status.Set(rec.Pod, st)
	return rec
}

// save writes the record, unless it lies there like that.
func (w *worker) save(rec *pod.Record) error {
	data, err := json.Marshal(rec)
	if err != nil || bytes.Equal(data, w.saved) {
		return err
	}
	if err := w.Keep.Save(w.uid, data); err != nil {
		return err
	}
	w.saved = data
	return nil
}

// syncProbes tells the prober what runs.
func (w *worker) syncProbes(rec *pod.Record) {
	var targets []probe.Target
	ip := ""
	if st := rec.Sandbox.IPs; len(st) > 0 {
		ip = st[0].String()
	} else if rec.Pod.Spec.HostNetwork && len(w.Host.IPs) > 0 {
		ip = w.Host.IPs[0]
	}
	for _, c := range rec.Specs() {
		s := rec.Containers[c.Name]
		if s.Phase != pod.Running || c.LivenessProbe == nil && c.ReadinessProbe == nil && c.StartupProbe == nil {
			continue
		}
		targets = append(targets, probe.Target{
			Pod: rec.Pod, Container: c.Container, ID: s.ID, IP: ip, StartedAt: s.StartedAt, Started: s.Started, Ready: s.Ready,
			Ending: rec.Terminating(),
		})
	}
	w.Prober.Set(w.uid, targets, w.probed)
}

func (w *worker) dropProbes() { w.Prober.Drop(w.uid) }

// probed takes a probe's standing.
func (w *worker) probed(name, id string, standing probe.Standing) {
	w.change(func(r *pod.Record) { r.Probed(name, id, standing.Started, standing.Ready, standing.Unhealthy) })
}
