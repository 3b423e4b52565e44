// Package controllertest plays a cluster for controllers: the real store, the
// API's own preparation and validation, the real drivers, guests run natively,
// and a node whose pods do as a test says. Time is the bubble's of
// testing/synctest: an hour takes no time.
package controllertest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/custommetrics"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
	"github.com/berth-dev/berth/sdk/guest"
)

// World is a cluster in which some controllers work.
type World struct {
	T        *testing.T
	Store    *store.Store
	Registry *registry.Registry

	drivers []*controller.Driver
	pods    int // how many the node has seen

	mu     sync.Mutex
	start  func(p *v1.Pod)
	usage  func(p *v1.Pod) *controller.Usage
	client metrics.MetricsClient
	events []string
	// refused is why, by resource, controllers may create no more.
	refused map[string]string
}

// Play runs the test within a bubble with the named controllers of the modules
// that the test imports.
func Play(t *testing.T, policies []string, test func(w *World)) {
	t.Helper()
	PlayFrom(t, time.Time{}, policies, test)
}

// PlayFrom plays from a time on: to wait for it while controllers work would
// take long.
func PlayFrom(t *testing.T, from time.Time, policies []string, test func(w *World)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(from))
		w := &World{T: t, start: Ready, refused: map[string]string{}}
		w.Store = storetest.OpenEngine(t, store.NewMemory(), store.Options{Indexes: controller.Indexes(registry.Indexes())})
		w.Registry = registry.New(registry.Config{Store: w.Store})
		w.Create("namespaces", &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "default"}})
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		for _, name := range policies {
			d := w.driver(name)
			w.drivers = append(w.drivers, d)
			running.Go(func() {
				if err := d.Run(ctx); err != nil {
					t.Errorf("controller %s: %v", name, err)
				}
			})
		}
		running.Go(func() { w.node(ctx) })
		defer running.Wait()
		defer cancel()
		synctest.Wait() // until all watch
		test(w)
	})
}

// policy asks a policy of this process.
type policy struct {
	mu    sync.Mutex
	entry *abi.Policy
	in    *guest.Instance
	enc   *wire.Encoder
}

func open(t *testing.T, name string) *policy {
	t.Helper()
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		t.Fatal(err)
	}
	g := &policy{entry: m.Find(name), enc: wire.NewEncoder()}
	if g.entry == nil {
		t.Fatalf("no policy %s is registered: import its package", name)
	}
	if g.in, err = guest.Open([]byte(fmt.Sprintf(`{"policy":%q}`, name))); err != nil {
		t.Fatal(err)
	}
	return g
}

func (g *policy) Name() string               { return g.entry.Name }
func (g *policy) Parent() abi.ObjectKind     { return *g.entry.Parent }
func (g *policy) Children() []abi.ObjectKind { return g.entry.Children }
func (g *policy) Related() []abi.ObjectKind  { return g.entry.Related }
func (g *policy) Seeded() bool               { return g.entry.Seed }

func (g *policy) Reconcile(_ context.Context, in *wire.ReconcileInput) (*abi.ReconcileResult, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	question := g.enc.Reconcile(in)
	out, err := g.in.Reconcile(question)
	if err == nil {
		err = g.in.Unchanged(question)
	}
	if err != nil {
		return nil, err
	}
	result, err := abi.ReadReconcileResult(out)
	if err != nil {
		return nil, fmt.Errorf("%w: %s", err, out)
	}
	return result, nil
}

func (w *World) driver(name string) *controller.Driver {
	w.T.Helper()
	d, err := controller.New(controller.Config{
		Guest: open(w.T, name), Objects: w.Store, Writer: w, Access: anybody{}, Recorder: w, Types: Types, Usage: w.used, Metrics: custommetrics.New(adapters{w}, time.Now), Now: time.Now,
		Note: func(_ slog.Level, message string) { w.note("note " + message) }, Log: slog.New(slog.DiscardHandler),
		Sample: 1, Broke: func(rule, message string) { w.T.Errorf("controller %s is not %s: %s", name, rule, message) },
	})
	if err != nil {
		w.T.Fatal(err)
	}
	return d
}

// Types finds a kind that is served.
func Types(apiVersion, name string) (controller.Type, bool) {
	gv, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return controller.Type{}, false
	}
	k, ok := kind.ByGVK(gv.WithKind(name))
	if !ok || k.Strategy == nil || k.Stored() != gv {
		return controller.Type{}, false
	}
	return controller.Type{Resource: k.StoreName(), New: k.New, Cluster: !k.Namespaced}, true
}

type anybody struct{}

func (anybody) May(context.Context, string, string, string, string, string) error { return nil }

// Begin implements controller.Writer.
func (w *World) Begin() controller.Transaction { return transaction{w.Registry.Begin(), w} }

type transaction struct {
	*registry.Transaction
	w *World
}

func (t transaction) Create(ctx context.Context, resource string, o store.Object) (store.Object, error) {
	if err := t.w.refuses(resource, o.GetName()); err != nil {
		return nil, err
	}
	return t.Transaction.Create(ctx, registry.On(resource, o.GetNamespace(), o.GetName()), o)
}

func (t transaction) Modify(ctx context.Context, resource, subresource, namespace, name string, change func(store.Object) (store.Object, error)) error {
	_, err := t.Transaction.Modify(ctx, registry.On(resource, namespace, name).Sub(subresource), change)
	return err
}

func (t transaction) Delete(ctx context.Context, resource string, o store.Object, opts *metav1.DeleteOptions) error {
	return t.Transaction.Delete(ctx, registry.On(resource, o.GetNamespace(), o.GetName()), opts)
}

// Event implements controller.Recorder.
func (w *World) Event(about store.Object, kind, reason, message string) {
	w.note(fmt.Sprintf("%s %s %s: %s", about.GetName(), kind, reason, message))
}

func (w *World) note(text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, text)
}

// Events are those that were written since the last call, as "NAME TYPE REASON:
// MESSAGE", and what keeps controllers from their work as "note …".
func (w *World) Events() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.events
	w.events = nil
	return out
}

// Start says what the node makes of a pod that it sees for the first time: it
// changes the pod's status. Without it each pod is Running and Ready at once.
func (w *World) Start(start func(p *v1.Pod)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.start = start
}

// Refuse has controllers create nothing more of a resource, as admission would that
// says this; "" lets them again.
func (w *World) Refuse(resource, message string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.refused[resource] = message
}

func (w *World) refuses(resource, name string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if message := w.refused[resource]; message != "" {
		return apierrors.NewForbidden(schema.ParseGroupResource(resource), name, errors.New(message))
	}
	return nil
}

// Use says what pods use from now on; before that nobody measures it.
func (w *World) Use(usage func(p *v1.Pod) *controller.Usage) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.usage = usage
}

func (w *World) used(p *v1.Pod) *controller.Usage {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.usage == nil {
		return nil
	}
	return w.usage(p)
}

// Wait lets time pass, and everything come to rest.
func (w *World) Wait(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// Create stores an object as a user would, who keeps it: it may share parts with others.
func (w *World) Create(resource string, o store.Object) store.Object {
	w.T.Helper()
	made, err := w.Registry.Create(w.T.Context(), registry.On(resource, o.GetNamespace(), o.GetName()), o.DeepCopyObject().(store.Object))
	if err != nil {
		w.T.Fatal(err)
	}
	return made
}

// Change changes an object, or with "deployments.apps/status" its status. Of
// objects that are gone it says so.
func Change[T store.Object](w *World, resource, subresource, name string, change func(T)) {
	w.T.Helper()
	_, err := w.Registry.Modify(w.T.Context(), registry.On(resource, "default", name).Sub(subresource), func(old store.Object) (store.Object, error) {
		next := old.DeepCopyObject().(T)
		change(next)
		return next, nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

// ChangeNode changes a node's labels, taints and the like.
func ChangeNode(w *World, name string, change func(*v1.Node)) {
	w.T.Helper()
	_, err := w.Store.Update(w.T.Context(), store.Key{Resource: "nodes", Name: name}, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*v1.Node)
		change(next)
		return next, nil
	})
	if err != nil {
		w.T.Fatal(err)
	}
}

// Delete deletes an object of namespace default.
func (w *World) Delete(resource, name string, opts *metav1.DeleteOptions) {
	w.T.Helper()
	w.DeleteAt(resource, "default", name, opts)
}

// DeleteAt deletes an object of any namespace, or of none.
func (w *World) DeleteAt(resource, namespace, name string, opts *metav1.DeleteOptions) {
	w.T.Helper()
	if _, _, err := w.Registry.Delete(w.T.Context(), registry.On(resource, namespace, name), opts); err != nil {
		w.T.Fatal(err)
	}
}

// Get is an object of namespace default; the zero value where there is none.
func Get[T store.Object](w *World, resource, name string) (found T) {
	if o, ok := w.Store.Get(store.Key{Resource: resource, Namespace: "default", Name: name}); ok {
		found = o.(T)
	}
	return found
}

// List are all objects of a resource in namespace default, by name.
func List[T store.Object](w *World, resource string) []T {
	w.T.Helper()
	return list[T](w, resource, "default")
}

// ListAll are all objects of a resource, by name.
func ListAll[T store.Object](w *World, resource string) []T {
	w.T.Helper()
	return list[T](w, resource, "")
}

func list[T store.Object](w *World, resource, namespace string) (found []T) {
	w.T.Helper()
	list, err := w.Store.List(resource, namespace, store.ListOptions{})
	if err != nil {
		w.T.Fatal(err)
	}
	for _, o := range list.Items {
		found = append(found, o.(T))
	}
	return found
}

// node binds and runs pods, and lets those go that are deleted.
func (w *World) node(ctx context.Context) {
	watch, err := w.Store.Watch("pods", "", w.Store.Revision())
	for err == nil {
		var events []store.Event
		if events, err = watch.Next(ctx); err != nil {
			return
		}
		for i := range events {
			if events[i].Type != store.Deleted {
				w.tend(ctx, events[i].Object.(*v1.Pod))
			}
		}
	}
}

func (w *World) tend(ctx context.Context, p *v1.Pod) {
	if p.DeletionTimestamp != nil {
		opts := &metav1.DeleteOptions{GracePeriodSeconds: ptr.To(int64(0)), Preconditions: &metav1.Preconditions{UID: &p.UID}}
		_, _, err := w.Registry.Delete(ctx, registry.On("pods", p.Namespace, p.Name), opts)
		_ = err // somebody else was quicker
		return
	}
	if p.Status.StartTime != nil {
		return
	}
	w.pods++
	node, ip := fmt.Sprintf("node-%d", w.pods%5), fmt.Sprintf("10.0.%d.%d", w.pods/250, w.pods%250+1)
	w.mu.Lock()
	start := w.start
	w.mu.Unlock()
	_, err := w.Store.Update(ctx, store.Key{Resource: "pods", Namespace: p.Namespace, Name: p.Name}, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*v1.Pod)
		if next.Spec.NodeName == "" {
			next.Spec.NodeName = cmp.Or(meantFor(next), node)
		}
		next.Status.StartTime = ptr.To(metav1.Now())
		next.Status.PodIP, next.Status.PodIPs = ip, []v1.PodIP{{IP: ip}}
		start(next)
		return next, nil
	})
	_ = err // it is gone
}

// meantFor is the node that the pod's affinity names, as a DaemonSet's does.
func meantFor(p *v1.Pod) string {
	if p.Spec.Affinity == nil || p.Spec.Affinity.NodeAffinity == nil || p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, t := range p.Spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, f := range t.MatchFields {
			if f.Key == metav1.ObjectNameField && len(f.Values) == 1 {
				return f.Values[0]
			}
		}
	}
	return ""
}

// Ready makes a pod Running and Ready since now.
func Ready(p *v1.Pod) {
	p.Status.Phase = v1.PodRunning
	condition := v1.PodCondition{Type: v1.PodReady, Status: v1.ConditionTrue, LastTransitionTime: metav1.Now()}
	i := slices.IndexFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady })
	if i < 0 {
		p.Status.Conditions = append(p.Status.Conditions, condition)
		return
	}
	p.Status.Conditions[i] = condition
}

// Running makes a pod Running and not Ready.
func Running(p *v1.Pod) {
	Ready(p)
	p.Status.Conditions[0].Status = v1.ConditionFalse
}

// Ended makes a pod end with its containers at this exit code.
func Ended(code int32) func(*v1.Pod) {
	return func(p *v1.Pod) {
		p.Status.Phase = v1.PodSucceeded
		if code != 0 {
			p.Status.Phase = v1.PodFailed
		}
		p.Status.ContainerStatuses = nil
		for _, c := range p.Spec.Containers {
			p.Status.ContainerStatuses = append(p.Status.ContainerStatuses, v1.ContainerStatus{
				Name:  c.Name,
				State: v1.ContainerState{Terminated: &v1.ContainerStateTerminated{ExitCode: code, FinishedAt: metav1.Now()}},
			})
		}
	}
}

// SetPod changes a pod's status as its node would.
func (w *World) SetPod(name string, change func(*v1.Pod)) {
	w.T.Helper()
	if err := w.setPod(name, change); err != nil {
		w.T.Fatal(err)
	}
}

func (w *World) setPod(name string, change func(*v1.Pod)) error {
	_, err := w.Store.Update(w.T.Context(), store.Key{Resource: "pods", Namespace: "default", Name: name}, func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*v1.Pod)
		change(next)
		return next, nil
	})
	return err
}

// SetPods changes the status of the pods that are chosen, or with nil of all, as
// their nodes would. Controllers work meanwhile: pods that are gone when their
// turn comes are passed over.
func (w *World) SetPods(chosen func(*v1.Pod) bool, change func(*v1.Pod)) {
	w.T.Helper()
	for _, p := range List[*v1.Pod](w, "pods") {
		if chosen != nil && !chosen(p) {
			continue
		}
		if err := w.setPod(p.Name, change); err != nil && !errors.Is(err, store.ErrNotFound) {
			w.T.Fatal(err)
		}
	}
}

// Ask is a guest's answer about a parent among other objects, at a time.
func Ask(t *testing.T, policy string, now time.Time, parent store.Object, others ...store.Object) *abi.ReconcileResult {
	t.Helper()
	s, err := store.Open(t.Context(), store.NewMemory(), storetest.Codec{Scheme: scheme.Scheme}, store.Options{Indexes: controller.Indexes(registry.Indexes())})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { // now, and not with the test, which may ask 20,000 times
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for _, o := range append([]store.Object{parent}, others...) {
		k, ok := kind.Of(o)
		if !ok {
			t.Fatalf("no kind is %T", o)
		}
		_, _, err := s.Commit(t.Context(), store.Op{Kind: store.Create, Key: k.Key(o.GetNamespace(), o.GetName()), Object: o.DeepCopyObject().(store.Object)})
		if err != nil {
			t.Fatal(err)
		}
	}
	g := open(t, policy)
	d, err := controller.New(controller.Config{Guest: g, Objects: s, Types: Types, Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	if k, ok := kind.Of(parent); ok {
		parent, _ = s.Get(k.Key(parent.GetNamespace(), parent.GetName()))
	}
	in, err := d.Input(parent)
	if err != nil {
		t.Fatal(err)
	}
	out, err := g.Reconcile(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// Status reads an answer's status.
func Status[T any](t *testing.T, out *abi.ReconcileResult) (status T) {
	t.Helper()
	if err := json.Unmarshal(out.Status, &status); err != nil {
		t.Fatalf("%v: %s", err, out.Status)
	}
	return status
}
