package ephemeral

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"
)

const (
	pods   = "pods"
	claims = "persistentvolumeclaims"
)

// How long a pod waits whose claim could not be made before it is tried again.
const (
	firstWait   = 50 * time.Millisecond
	longestWait = 30 * time.Second
)

// Recorder tells users what happened to an object.
type Recorder interface {
	Event(about store.Object, kind, reason, message string)
}

// Maker makes claims.
type Maker struct {
	registry *registry.Registry
	store    *store.Store
	events   Recorder
	queue    workqueue.TypedRateLimitingInterface[store.Key]
}

// New makes a Maker; Run has it work.
func New(reg *registry.Registry, events Recorder) *Maker {
	return &Maker{registry: reg, store: reg.Store(), events: events}
}

// Run makes claims until ctx ends.
func (m *Maker) Run(ctx context.Context) error {
	m.queue = workqueue.NewTypedRateLimitingQueue(workqueue.NewTypedItemExponentialFailureRateLimiter[store.Key](firstWait, longestWait))
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return m.follow(ctx, pods, m.podChanged) })
	group.Go(func() error { return m.follow(ctx, claims, m.claimChanged) })
	group.Go(func() error { m.work(ctx); return nil })
	group.Go(func() error {
		<-ctx.Done()
		m.queue.ShutDown()
		return nil
	})
	err := group.Wait()
	if ctx.Err() != nil && (err == nil || errors.Is(err, context.Canceled) || errors.Is(err, store.ErrClosed)) {
		return nil
	}
	return err
}

// follow looks at all pods, and then at each change of a resource.
func (m *Maker) follow(ctx context.Context, resource string, changed func(*store.Event)) error {
	for {
		list, err := m.store.List(pods, "", store.ListOptions{Match: waits})
		if err != nil {
			return err
		}
		for _, o := range list.Items {
			m.queue.Add(keyOf(o.GetNamespace(), o.GetName()))
		}
		w, err := m.store.Watch(resource, "", list.Revision)
		for err == nil {
			var events []store.Event
			events, err = w.Next(ctx)
			for i := range events {
				changed(&events[i])
			}
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// podChanged notes a new pod: its volumes never change.
func (m *Maker) podChanged(e *store.Event) {
	if e.Type == store.Added && waits(e.Object) {
		m.queue.Add(keyOf(e.Object.GetNamespace(), e.Object.GetName()))
	}
}

// claimChanged notes the pod whose claim somebody took away.
func (m *Maker) claimChanged(e *store.Event) {
	if e.Type != store.Deleted {
		return
	}
	if owner := metav1.GetControllerOfNoCopy(e.Object); owner != nil && owner.Kind == "Pod" {
		m.queue.Add(keyOf(e.Object.GetNamespace(), owner.Name))
	}
}

func keyOf(namespace, name string) store.Key {
	return store.Key{Resource: pods, Namespace: namespace, Name: name}
}

// waits tells whether a pod has claims made for it.
func waits(o store.Object) bool {
	pod, ok := o.(*v1.Pod)
	if !ok || pod.DeletionTimestamp != nil {
		return false
	}
	for i := range pod.Spec.Volumes {
		if pod.Spec.Volumes[i].Ephemeral != nil {
			return true
		}
	}
	return false
}

func (m *Maker) work(ctx context.Context) {
	for {
		key, shutdown := m.queue.Get()
		if shutdown {
			return
		}
		if err := m.tend(ctx, key); err == nil {
			m.queue.Forget(key)
		} else if ctx.Err() == nil {
			m.queue.AddRateLimited(key)
		}
		m.queue.Done(key)
	}
}

// tend makes the claims that a pod lacks. What keeps it from that is told to
// users.
func (m *Maker) tend(ctx context.Context, key store.Key) error {
	o, ok := m.store.Get(key)
	if !ok || !waits(o) {
		return nil
	}
	pod := o.(*v1.Pod)
	for i := range pod.Spec.Volumes {
		volume := &pod.Spec.Volumes[i]
		if volume.Ephemeral == nil {
			continue
		}
		if err := m.claim(ctx, pod, volume); err != nil {
			if ctx.Err() == nil {
				m.events.Event(pod, v1.EventTypeWarning, "FailedBinding", fmt.Sprintf("ephemeral volume %s: %v", volume.Name, err))
			}
			return err
		}
	}
	return nil
}

// claim makes the claim of one volume, if it is not there.
func (m *Maker) claim(ctx context.Context, pod *v1.Pod, volume *v1.Volume) error {
	name := pod.Name + "-" + volume.Name
	if have, ok := m.store.Get(store.Key{Resource: claims, Namespace: pod.Namespace, Name: name}); ok {
		if !metav1.IsControlledBy(have, pod) {
			return fmt.Errorf("PVC %s/%s was not created for pod %s/%s (pod is not owner)", pod.Namespace, name, pod.Namespace, pod.Name)
		}
		return nil
	}
	template := volume.Ephemeral.VolumeClaimTemplate.DeepCopy()
	made := &v1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: pod.Namespace, Labels: template.Labels, Annotations: template.Annotations,
			OwnerReferences: []metav1.OwnerReference{*metav1.NewControllerRef(pod, v1.SchemeGroupVersion.WithKind("Pod"))},
		},
		Spec: template.Spec,
	}
	if _, err := m.registry.Create(ctx, registry.On(claims, pod.Namespace, ""), made); err != nil {
		return fmt.Errorf("create PVC %s: %w", name, err)
	}
	return nil
}
