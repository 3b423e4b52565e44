// Package status tells the API what became of pods: the newest status of each,
// as a patch of what changed, tried again until the API takes it.
//
// Only fields that the agent owns are written. Conditions of others, such as
// those of readiness gates, are not touched, save that a gate's condition which
// nobody has set starts as False.
package status

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	podutil "k8s.io/kubernetes/pkg/api/v1/pod"
)

// writers is how many statuses are sent at once.
const writers = 4

// The pace of tries while the API does not answer.
const (
	retryFirst = 200 * time.Millisecond
	retryMost  = 10 * time.Second
)

// Writer sends statuses.
type Writer struct {
	pods corev1.PodsGetter
	log  *slog.Logger
	work chan string
	done chan struct{} // closed when Run has ended

	mu    sync.Mutex
	items map[string]*item
}

// item is one pod's standing with the API; guarded by Writer.mu.
type item struct {
	pod     *v1.Pod // the newest that is known to the API
	want    *v1.PodStatus
	queued  bool
	failing time.Duration
	// sending is held while a request is under way, so that they keep their order.
	sending chan struct{}
}

// New gives a writer; Run makes it send.
func New(pods corev1.PodsGetter, log *slog.Logger) *Writer {
	return &Writer{pods: pods, log: log, work: make(chan string, 4096), done: make(chan struct{}), items: map[string]*item{}}
}

// Run sends until ctx ends. It is called once.
func (w *Writer) Run(ctx context.Context) error {
	defer close(w.done)
	var wg sync.WaitGroup
	for range writers {
		wg.Go(func() {
			for {
				select {
				case <-ctx.Done():
					return
				case uid := <-w.work:
					w.send(ctx, uid)
				}
			}
		})
	}
	wg.Wait()
	return ctx.Err()
}

// Set reports a status soon; a later one replaces it.
func (w *Writer) Set(p *v1.Pod, st v1.PodStatus) {
	uid := string(p.UID)
	w.mu.Lock()
	it := w.learn(p)
	it.want = &st
	queue := !it.queued
	it.queued = true
	w.mu.Unlock()
	if queue {
		w.enqueue(uid)
	}
}

func (w *Writer) enqueue(uid string) {
	select {
	case w.work <- uid:
	default:
		go func() {
			select {
			case w.work <- uid:
			case <-w.done:
			}
		}()
	}
}

// learn keeps the newest version of a pod; w.mu is held.
func (w *Writer) learn(p *v1.Pod) *item {
	it := w.items[string(p.UID)]
	if it == nil {
		it = &item{sending: make(chan struct{}, 1)}
		w.items[string(p.UID)] = it
	}
	if it.pod == nil || newer(p, it.pod) {
		it.pod = p
	}
	return it
}

func newer(a, b *v1.Pod) bool {
	x, errX := strconv.ParseUint(a.ResourceVersion, 10, 64)
	y, errY := strconv.ParseUint(b.ResourceVersion, 10, 64)
	return errX != nil || errY != nil || x > y
}

// Forget drops what waits to be reported of a pod.
func (w *Writer) Forget(uid string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.items, uid)
}

func (w *Writer) send(ctx context.Context, uid string) {
	w.mu.Lock()
	it := w.items[uid]
	if it == nil {
		w.mu.Unlock()
		return
	}
	it.queued = false
	w.mu.Unlock()
	err := w.patch(ctx, uid, it)
	if err == nil || ctx.Err() != nil {
		return
	}
	w.mu.Lock()
	it.failing = min(max(2*it.failing, retryFirst), retryMost)
	wait := it.failing
	p := it.pod
	again := !it.queued && w.items[uid] == it
	it.queued = it.queued || again
	w.mu.Unlock()
	w.log.Warn("report a pod's status", "pod", p.Name, "namespace", p.Namespace, "err", err, "again", wait)
	if again {
		time.AfterFunc(wait, func() { w.enqueue(uid) })
	}
}

// patch sends one pod's newest status, if the API does not have it yet.
func (w *Writer) patch(ctx context.Context, uid string, it *item) error {
	select {
	case it.sending <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-it.sending }()
	w.mu.Lock()
	p, want := it.pod, it.want
	w.mu.Unlock()
	if want == nil {
		return nil
	}
	patch, err := Patch(p, *want)
	if err != nil || patch == nil {
		return err
	}
	got, err := w.pods.Pods(p.Namespace).Patch(ctx, p.Name, types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status")
	switch {
	case apierrors.IsNotFound(err):
		return nil // deleted meanwhile
	case apierrors.IsConflict(err):
		fresh, getErr := w.pods.Pods(p.Namespace).Get(ctx, p.Name, metav1.GetOptions{})
		if getErr != nil || string(fresh.UID) != uid {
			return ignoreNotFound(getErr)
		}
		w.mu.Lock()
		it.pod = fresh
		w.mu.Unlock()
		return fmt.Errorf("the pod changed meanwhile: %w", err)
	case err != nil:
		return err
	}
	w.mu.Lock()
	if string(got.UID) == uid && !newer(it.pod, got) {
		it.pod = got
	}
	it.failing = 0
	w.mu.Unlock()
	return nil
}

// Flush sends all that the API does not have yet, and returns when it has, or
// when ctx ends. It needs no Run.
func (w *Writer) Flush(ctx context.Context) error {
	w.mu.Lock()
	items := maps.Clone(w.items)
	w.mu.Unlock()
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(writers)
	for uid, it := range items {
		g.Go(func() error { return w.insist(ctx, uid, it) })
	}
	return g.Wait()
}

// insist sends one pod's newest status until the API takes it.
func (w *Writer) insist(ctx context.Context, uid string, it *item) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := w.patch(ctx, uid, it)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(wait):
		}
	}
}

func ignoreNotFound(err error) error {
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// Final sends a last status and removes the pod from the API.
func (w *Writer) Final(ctx context.Context, p *v1.Pod, st v1.PodStatus) error {
	w.mu.Lock()
	it := w.learn(p)
	it.want = &st
	w.mu.Unlock()
	if err := w.patch(ctx, string(p.UID), it); apierrors.IsInvalid(err) {
		w.log.Warn("report a pod's last status", "pod", p.Name, "namespace", p.Namespace, "err", err) // it will not become valid
	} else if err != nil {
		return err
	}
	zero := int64(0)
	err := w.pods.Pods(p.Namespace).Delete(ctx, p.Name, metav1.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if apierrors.IsConflict(err) {
		return nil // another pod of this name: ours is gone
	}
	return ignoreNotFound(err)
}

// Patch gives the strategic merge patch that brings a pod's status to what the
// agent wants, or nil if it is so already.
func Patch(p *v1.Pod, want v1.PodStatus) ([]byte, error) {
	merged, gates := merge(p, want)
	if apiequality.Semantic.DeepEqual(p.Status, merged) {
		return nil, nil
	}
	before, err := json.Marshal(v1.Pod{Status: p.Status})
	if err != nil {
		return nil, err
	}
	after, err := json.Marshal(v1.Pod{Status: merged})
	if err != nil {
		return nil, err
	}
	diff, err := strategicpatch.CreateTwoWayMergePatch(before, after, v1.Pod{})
	if err != nil {
		return nil, fmt.Errorf("status of pod %s/%s: %w", p.Namespace, p.Name, err)
	}
	if string(diff) == "{}" {
		return nil, nil
	}
	var body map[string]any
	if err := json.Unmarshal(diff, &body); err != nil {
		return nil, err
	}
	meta := map[string]any{"uid": p.UID}
	if gates {
		// Nobody may have set the gate between our look and this write.
		meta["resourceVersion"] = p.ResourceVersion
	}
	body["metadata"] = meta
	return json.Marshal(body)
}

// merge keeps the conditions of others, and starts gates that nobody set.
func merge(p *v1.Pod, want v1.PodStatus) (merged v1.PodStatus, gates bool) {
	merged = *want.DeepCopy()
	conditions := slices.DeleteFunc(slices.Clone(p.Status.Conditions), func(c v1.PodCondition) bool {
		// The agent's alone, and there only as long as they hold.
		return c.Type == v1.PodResizePending || c.Type == v1.PodResizeInProgress
	})
	put := func(c v1.PodCondition) {
		i := slices.IndexFunc(conditions, func(old v1.PodCondition) bool { return old.Type == c.Type })
		if i < 0 {
			conditions = append(conditions, c)
			return
		}
		conditions[i] = c
	}
	for _, c := range want.Conditions {
		put(c)
	}
	for _, g := range p.Spec.ReadinessGates {
		if !slices.ContainsFunc(conditions, func(c v1.PodCondition) bool { return c.Type == g.ConditionType }) {
			gates = true
			// Without a reason: who sets the gate may send no other, and ours would stay.
			put(v1.PodCondition{Type: g.ConditionType, Status: v1.ConditionFalse, LastTransitionTime: metav1.Now(), ObservedGeneration: p.Generation})
		}
	}
	merged.Conditions = conditions
	keepEnds(p.Spec.InitContainers, p, p.Status.InitContainerStatuses, merged.InitContainerStatuses)
	keepEnds(p.Spec.Containers, p, p.Status.ContainerStatuses, merged.ContainerStatuses)
	merged.ExtendedResourceClaimStatus = p.Status.ExtendedResourceClaimStatus
	merged.ResourceClaimStatuses = p.Status.ResourceClaimStatuses
	if merged.NominatedNodeName == "" {
		merged.NominatedNodeName = p.Status.NominatedNodeName
	}
	return merged, gates
}

// keepEnds leaves as they are the statuses of containers that have ended for good, by
// their restart policy, and run all the same: init containers do in a new sandbox. The
// API refuses the whole status for one that does not stay as it ended.
func keepEnds(specs []v1.Container, p *v1.Pod, was, now []v1.ContainerStatus) {
	for i := range now {
		old := slices.IndexFunc(was, func(s v1.ContainerStatus) bool { return s.Name == now[i].Name })
		spec := slices.IndexFunc(specs, func(c v1.Container) bool { return c.Name == now[i].Name })
		if old < 0 || spec < 0 || now[i].State.Terminated != nil {
			continue
		}
		if end := was[old].State.Terminated; end != nil && !podutil.ContainerShouldRestart(specs[spec], p.Spec, end.ExitCode) {
			now[i] = was[old]
		}
	}
}
