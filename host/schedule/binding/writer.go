package binding

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/snapshot"
	"github.com/berth-dev/berth/host/store"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Writer is a schedule.Binder over a store.
type Writer struct {
	store *store.Store
	now   func() time.Time
}

// NewWriter returns a writer. now is time.Now where it is nil.
func NewWriter(s *store.Store, now func() time.Time) *Writer {
	if now == nil {
		now = time.Now
	}
	return &Writer{store: s, now: now}
}

// tries bounds how often a write begins anew because others wrote meanwhile.
const tries = 8

// unit is what must be committed together, for one pod: it is made from the
// present state, again after a conflict.
type unit struct {
	build func() ([]store.Op, error)
	err   error
	done  bool
	left  int
}

// Bind implements schedule.Binder.
func (w *Writer) Bind(ctx context.Context, list []schedule.Binding) []error {
	units := make([]unit, len(list))
	for i := range list {
		units[i] = unit{left: tries, build: func() ([]store.Op, error) { return w.bindOps(&list[i]) }}
	}
	return w.commit(ctx, units)
}

// Condition implements schedule.Binder.
func (w *Writer) Condition(ctx context.Context, list []schedule.Condition) []error {
	units := make([]unit, len(list))
	for i := range list {
		units[i] = unit{left: tries, build: func() ([]store.Op, error) { return w.conditionOps(&list[i]) }}
	}
	return w.commit(ctx, units)
}

// Evict implements schedule.Binder.
func (w *Writer) Evict(ctx context.Context, list []schedule.Eviction) []error {
	units := make([]unit, len(list))
	for i := range list {
		units[i] = unit{left: tries, build: func() ([]store.Op, error) { return w.evictOps(&list[i]) }}
	}
	return w.commit(ctx, units)
}

// Provision implements schedule.Binder.
func (w *Writer) Provision(ctx context.Context, list []schedule.Provision) []error {
	units := make([]unit, len(list))
	for i := range list {
		units[i] = unit{left: tries, build: func() ([]store.Op, error) { return w.provisionOps(&list[i]) }}
	}
	return w.commit(ctx, units)
}

// maxOps bounds the writes of one commit.
const maxOps = 1024

// commit writes the units, as many at once as go into a commit. One that
// conflicts is built anew; one that cannot be written does not hold up others.
//
// While the store cannot write, all wait for it: whether the last commit was
// written shows only then, and a pod given up before could be bound after all.
func (w *Writer) commit(ctx context.Context, units []unit) []error {
	limit := maxOps
	pause := minPause
	for {
		ops, owners := w.gather(units, limit)
		if len(ops) == 0 {
			break
		}
		_, _, err := w.store.Commit(ctx, ops...)
		switch {
		case err == nil:
			for _, i := range owners {
				units[i].done = true
			}
			pause = minPause
		case errors.Is(err, store.ErrUnavailable) && waited(ctx, pause):
			pause = min(2*pause, maxPause)
		case errors.Is(err, store.ErrTooLarge) && len(owners) > 1 && owners[0] != owners[len(owners)-1]:
			limit = max(len(ops)/2, 1)
		default:
			blame(units, ops, owners, err)
		}
	}
	errs := make([]error, len(units))
	for i := range units {
		errs[i] = units[i].err
	}
	return errs
}

// Pauses between two tries while the store cannot write.
const (
	minPause = 50 * time.Millisecond
	maxPause = time.Second
)

// waited lets a time pass, and says whether ctx has not ended in it.
func waited(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// gather builds the units that are not done, up to limit writes. owners tells
// for each write whose it is.
func (w *Writer) gather(units []unit, limit int) (ops []store.Op, owners []int) {
	taken := map[store.Key]bool{}
	for i := range units {
		u := &units[i]
		if u.done {
			continue
		}
		if len(ops) >= limit {
			break
		}
		part, err := u.build()
		if err != nil || len(part) == 0 {
			u.err, u.done = err, true
			continue
		}
		if overlaps(part, taken) {
			// Two pods of one claim: the second finds it bound afterwards.
			continue
		}
		for range part {
			owners = append(owners, i)
		}
		ops = append(ops, part...)
	}
	return ops, owners
}

func overlaps(ops []store.Op, taken map[store.Key]bool) bool {
	for _, op := range ops {
		if taken[op.Key] {
			return true
		}
	}
	for _, op := range ops {
		taken[op.Key] = true
	}
	return false
}

// blame finds the unit that a commit failed for: it is built anew, or given up.
// A failure that names none of them is everybody's.
func blame(units []unit, ops []store.Op, owners []int, err error) {
	var refused *store.Error
	if errors.As(err, &refused) && !errors.Is(err, store.ErrClosed) {
		for k := range ops {
			if ops[k].Key == refused.Key {
				units[owners[k]].retry(err)
				return
			}
		}
	}
	for _, i := range owners {
		units[i].err, units[i].done = err, true
	}
}

func (u *unit) retry(err error) {
	u.left--
	if u.left > 0 && (errors.Is(err, store.ErrConflict) || errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrExists)) {
		return
	}
	u.err, u.done = err, true
}

// Why a pod cannot be bound any more.
var (
	errGone  = errors.New("pod is gone")
	errBound = errors.New("pod is bound to another node")
)

// present returns the pod as it is now, and the revision that it has.
func (w *Writer) present(was *v1.Pod) (*v1.Pod, int64, error) {
	o, ok := w.store.Get(podKey(was))
	if !ok {
		return nil, 0, errGone
	}
	pod, ok := o.(*v1.Pod)
	if !ok || pod.UID != was.UID {
		return nil, 0, errGone
	}
	return pod, revision(pod), nil
}

func podKey(pod *v1.Pod) store.Key {
	return store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name}
}

func revision(o metav1.Object) int64 {
	n, _ := strconv.ParseInt(o.GetResourceVersion(), 10, 64)
	return n
}

func (w *Writer) bindOps(b *schedule.Binding) ([]store.Op, error) {
	now, rev, err := w.present(b.Pod)
	if err != nil {
		return nil, fmt.Errorf("bind to %s: %w", b.Node, err)
	}
	if now.Spec.NodeName == b.Node {
		return nil, nil
	}
	if now.Spec.NodeName != "" {
		return nil, fmt.Errorf("bind to %s: %w: %s", b.Node, errBound, now.Spec.NodeName)
	}
	if now.DeletionTimestamp != nil {
		return nil, fmt.Errorf("bind to %s: %w: it is being deleted", b.Node, errGone)
	}
	o, _ := w.store.Get(store.Key{Resource: "nodes", Name: b.Node})
	node, ok := o.(*v1.Node)
	if !ok {
		return nil, fmt.Errorf("bind to %s: node is gone", b.Node)
	}
	ops, err := w.volumeOps(b.Volumes)
	if err != nil {
		return nil, err
	}
	// Only what changes is copied: the rest is never written to.
	pod := *now
	pod.ResourceVersion = "" // the store sees that it is no state of its own
	pod.Spec.NodeName = b.Node
	pod.Labels = snapshot.LabelsOn(node, now.Labels)
	pod.Status.NominatedNodeName = ""
	pod.Status.Conditions, _ = withCondition(now.Status.Conditions, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionTrue, ObservedGeneration: now.Generation,
	}, metav1.NewTime(w.now()))
	return append(ops, store.Op{Kind: store.Update, Key: podKey(now), Object: &pod, Expect: rev}), nil
}

func (w *Writer) conditionOps(c *schedule.Condition) ([]store.Op, error) {
	now, rev, err := w.present(c.Pod)
	if errors.Is(err, errGone) || err == nil && now.Spec.NodeName != "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	conditions, changed := withCondition(now.Status.Conditions, v1.PodCondition{
		Type: v1.PodScheduled, Status: v1.ConditionFalse, Reason: c.Reason, Message: c.Message, ObservedGeneration: now.Generation,
	}, metav1.NewTime(w.now()))
	if !changed && now.Status.NominatedNodeName == c.Nominated {
		return nil, nil
	}
	pod := *now
	pod.Status.Conditions = conditions
	pod.Status.NominatedNodeName = c.Nominated
	return []store.Op{{Kind: store.Update, Key: podKey(now), Object: &pod, Expect: rev}}, nil
}

// withCondition returns the list with a condition in it, and whether that is new.
func withCondition(list []v1.PodCondition, c v1.PodCondition, now metav1.Time) ([]v1.PodCondition, bool) {
	c.LastTransitionTime = now
	next := make([]v1.PodCondition, 0, len(list)+1)
	found := false
	for _, o := range list {
		if o.Type != c.Type {
			next = append(next, o)
			continue
		}
		found = true
		if o.Status == c.Status {
			c.LastTransitionTime = o.LastTransitionTime
		}
		if o.Status == c.Status && o.Reason == c.Reason && o.Message == c.Message {
			return list, false
		}
		c.LastProbeTime = o.LastProbeTime
		next = append(next, c)
	}
	if !found {
		next = append(next, c)
	}
	return next, true
}

// evictOps deletes a victim: at once where nobody runs it or it has no grace,
// else by the time that it has.
func (w *Writer) evictOps(e *schedule.Eviction) ([]store.Op, error) {
	now, rev, err := w.present(e.Victim)
	if errors.Is(err, errGone) || err == nil && now.DeletionTimestamp != nil {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	grace := int64(v1.DefaultTerminationGracePeriodSeconds)
	switch {
	case now.Spec.NodeName == "": // its bind is still under way
		grace = 0
	case now.Spec.TerminationGracePeriodSeconds != nil:
		grace = *now.Spec.TerminationGracePeriodSeconds
	}
	if grace <= 0 && len(now.Finalizers) == 0 {
		return []store.Op{{Kind: store.Delete, Key: podKey(now), Expect: rev}}, nil
	}
	pod := *now
	until := metav1.NewTime(w.now().Add(time.Duration(grace) * time.Second))
	pod.DeletionTimestamp, pod.DeletionGracePeriodSeconds = &until, &grace
	pod.Generation++
	pod.Status.Conditions, _ = withCondition(now.Status.Conditions, v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v1.PodReasonPreemptionByScheduler,
		Message:            fmt.Sprintf("%s: preempting to accommodate a higher priority pod", e.By.Spec.SchedulerName),
		ObservedGeneration: now.Generation,
	}, metav1.NewTime(w.now()))
	return []store.Op{{Kind: store.Update, Key: podKey(now), Object: &pod, Expect: rev}}, nil
}
