package walk_test

import (
	"context"
	"fmt"
	"sync"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
)

// podWatch judges the pods at each revision that it sees.
type podWatch struct {
	mu               sync.Mutex
	at               string // the last revision that was seen
	known            map[types.UID]v1.Pod
	revisions, lists int
	wrong            []string

	image   string // of the roll-out
	until   int    // revisions to see before reached is closed
	reached chan struct{}
}

// moment comes after some revisions, or when all pods are rolled if that is first.
func (w *podWatch) moment(image string, revisions int) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	reached := make(chan struct{})
	w.image, w.until, w.reached = image, w.revisions+revisions, reached
	w.come()
	return reached
}

// come closes reached if the moment has come.
func (w *podWatch) come() {
	if w.reached != nil && (w.revisions >= w.until || w.rolled(w.image)) {
		close(w.reached)
		w.reached = nil
	}
}

// follow goes on where the watch of the last host ended, or from a list if that
// is too long ago. It ends when the host does.
func (w *podWatch) follow(ctx context.Context, pods corev1.PodInterface) (err error) {
	if w.at == "" {
		err = w.list(ctx, pods)
	}
	for err == nil {
		var events watch.Interface
		if events, err = pods.Watch(ctx, metav1.ListOptions{ResourceVersion: w.at, AllowWatchBookmarks: true}); err == nil {
			err = w.take(events)
		}
		if apierrors.IsResourceExpired(err) || apierrors.IsGone(err) {
			err = w.list(ctx, pods)
		}
	}
	return err
}

// list begins anew.
func (w *podWatch) list(ctx context.Context, pods corev1.PodInterface) error {
	list, err := pods.List(ctx, metav1.ListOptions{})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known = byUID(list)
	w.lists++
	w.judge(list.ResourceVersion)
	return nil
}

func byUID(list *v1.PodList) map[types.UID]v1.Pod {
	pods := map[types.UID]v1.Pod{}
	for _, p := range list.Items {
		pods[p.UID] = p
	}
	return pods
}

// take sees events until there are no more.
func (w *podWatch) take(events watch.Interface) error {
	defer events.Stop()
	for e := range events.ResultChan() {
		p, ok := e.Object.(*v1.Pod)
		if !ok {
			return apierrors.FromObject(e.Object)
		}
		w.see(e.Type, p)
	}
	return nil
}

func (w *podWatch) see(what watch.EventType, p *v1.Pod) {
	w.mu.Lock()
	defer w.mu.Unlock()
	switch what {
	case watch.Bookmark:
		w.at = p.ResourceVersion
		return
	case watch.Deleted:
		delete(w.known, p.UID)
	default:
		w.known[p.UID] = *p
	}
	w.judge(p.ResourceVersion)
}

// judge counts the pods that are not about to go.
func (w *podWatch) judge(revision string) {
	w.at = revision
	w.revisions++
	all, available := map[string]int{}, 0
	for _, p := range w.known {
		if p.DeletionTimestamp == nil {
			all[p.Spec.Containers[0].Image]++
			if isReady(&p) {
				available++
			}
		}
	}
	n := 0
	for _, of := range all {
		n += of
	}
	if n > mostPods || available < leastAvailable {
		w.wrong = append(w.wrong, fmt.Sprintf("at revision %s, %d pods %v, %d available", revision, n, all, available))
	}
	w.come()
}

// rolled says whether all pods are of the image, and available.
func (w *podWatch) rolled(image string) bool {
	for _, p := range w.known {
		if p.Spec.Containers[0].Image != image || !isReady(&p) || p.DeletionTimestamp != nil {
			return false
		}
	}
	return len(w.known) == rolledPods
}
