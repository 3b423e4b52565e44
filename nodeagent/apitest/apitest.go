// Package apitest is an API for tests of what runs on the machine: client-go's
// fake one, which only keeps objects, with what these tests need of it.
//
// Between a list and the watch after it, it forgets what comes, where the real
// one tells of it by the revision. So who creates an object that somebody shall
// notice waits until they watch:
//
//	watched := api.Watched("pods")
//	go agent.Run(ctx)
//	<-watched
package apitest

import (
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
)

// API keeps objects, without account of who manages which field of them: that
// takes most of a short test's time.
type API struct {
	*fake.Clientset
	tracker clienttesting.ObjectTracker

	mu      sync.Mutex
	waiting map[string][]chan struct{} // by resource, for a watch of it
}

// Gate makes a call or fails it.
type Gate func(a clienttesting.Action, call func() error) error

// New makes an API whose calls, but those to watch, go through the gate, where
// there is one.
func New(gate Gate) *API {
	api := &API{
		Clientset: fake.NewClientset(), waiting: map[string][]chan struct{}{},
		tracker: clienttesting.NewObjectTracker(scheme.Scheme, scheme.Codecs.UniversalDecoder()),
	}
	if gate == nil {
		gate = func(_ clienttesting.Action, call func() error) error { return call() }
	}
	react := clienttesting.ObjectReaction(api.tracker)
	api.PrependReactor("*", "*", func(a clienttesting.Action) (handled bool, obj runtime.Object, err error) {
		err = gate(a, func() error { _, obj, err = react(a); return err })
		return true, obj, err
	})
	api.PrependWatchReactor("*", api.watch)
	return api
}

func (api *API) watch(a clienttesting.Action) (bool, watch.Interface, error) {
	var opts metav1.ListOptions
	if w, ok := a.(clienttesting.WatchActionImpl); ok {
		opts = w.ListOptions
	}
	resource := a.GetResource()
	w, err := api.tracker.Watch(resource, a.GetNamespace(), opts)
	api.mu.Lock()
	defer api.mu.Unlock()
	for _, begun := range api.waiting[resource.Resource] {
		close(begun)
	}
	delete(api.waiting, resource.Resource)
	return true, w, err
}

// Watched is closed when somebody begins to watch the resource, from now on.
func (api *API) Watched(resource string) <-chan struct{} {
	begun := make(chan struct{})
	api.mu.Lock()
	defer api.mu.Unlock()
	api.waiting[resource] = append(api.waiting[resource], begun)
	return begun
}
