package host

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/auth/authz"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/berth-dev/berth/host/api/gc"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/ephemeral"
	"github.com/berth-dev/berth/host/event"
	"github.com/berth-dev/berth/host/gate"
	"github.com/berth-dev/berth/host/node"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/store"
)

// part is something that runs as long as the host does.
type part struct {
	name string
	run  func(context.Context) error
}

func (h *Host) parts() []part {
	parts := []part{
		{"store", h.watchStore},
		{"accounts and roles", h.auth.Run},
		{"quotas", h.chain.Run},
		{"collect", gc.New(h.registry, h.Log).Run},
		{"events", h.events.Run},
		{"policies", h.loader.Run},
		{"modules", h.loader.Modules.MakeReady},
		{"scheduler", h.scheduler.Run},
		{"nodes", node.New(node.Config{
			Objects: h.store, Remover: remover{h.registry}, Silence: h.NodeGrace, PodRange: h.podRange, EndedPods: h.EndedPods, Now: h.Now, Log: h.Log,
		}).Run},
		{"ephemeral volumes", ephemeral.New(h.registry, h.events.For("ephemeral_volume")).Run},
		{"network", h.network.Run},
		{"usage", h.usage.Run},
		{"aggregation", h.aggregate.Run},
		{"gates", h.runGates},
		{"controllers", h.runControllers},
		{"pod starts", h.watchStarts},
	}
	if h.recorders != nil {
		parts = append(parts, part{"recording", h.recorders.decisions.Run}, part{"recording of questions", h.recorders.questions.Run})
	}
	return parts
}

// watchStore ends the host when its disk fails: what cannot be written must
// not be served.
func (h *Host) watchStore(ctx context.Context) error {
	select {
	case <-h.store.Failed():
		return h.store.Err()
	case <-ctx.Done():
		return nil
	}
}

func (h *Host) runGates(ctx context.Context) error {
	return gate.New(gate.Config{
		Objects: h.store, Swapped: h.loader.Swapped(), Now: h.Now, Log: h.Log,
		Observe: gate.NewObserver(h.store, h.Now).Observe,
		Checkers: func() map[v1.PodConditionType]gate.Checker {
			checkers := map[v1.PodConditionType]gate.Checker{}
			for condition, g := range h.loader.Current().Gates() {
				checkers[v1.PodConditionType(condition)] = g
			}
			return checkers
		},
	}).Run(ctx)
}

// components are the names under which Kubernetes' controllers tell of what they
// do, where they are not that of the kind.
var components = map[string]string{
	"HorizontalPodAutoscaler": "horizontal-pod-autoscaler",
	"PersistentVolume":        "persistentvolume-controller",
	"PersistentVolumeClaim":   "persistentvolume-controller",
	"ReplicationController":   "replication-controller",
}

// componentOf is in whose name a controller's events are written.
func componentOf(policy string) string {
	if name, ok := components[policy]; ok {
		return name
	}
	return strings.ToLower(policy) + "-controller"
}

// podUsage is what the newest two reports of a pod's node say of it.
func (h *Host) podUsage(pod *v1.Pod) *controller.Usage {
	metrics, ok := h.usage.Pod(pod)
	if !ok {
		return nil
	}
	used := &controller.Usage{Time: metrics.Timestamp.Time, Window: metrics.Window.Duration, Containers: map[string]v1.ResourceList{}}
	for _, c := range metrics.Containers {
		used.Containers[c.Name] = c.Usage
	}
	return used
}

// servedType finds a stored kind by what manifests call it.
func servedType(apiVersion, name string) (controller.Type, bool) {
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

// kindOf names the kind of a stored object, which does not carry it.
func kindOf(o store.Object) (apiVersion, name string) {
	k, ok := kind.Of(o)
	if !ok {
		return "", ""
	}
	gvk := k.GVK()
	return gvk.GroupVersion().String(), gvk.Kind
}

// access is what a user may do.
type access struct {
	authorizer *authz.Authorizer
	user       user.Info
}

// May implements controller.Access.
func (a access) May(ctx context.Context, verb, resource, subresource, namespace, name string) error {
	k := kind.MustStored(resource)
	gv := k.Stored()
	attributes := authorizer.AttributesRecord{
		User: a.user, Verb: verb, APIGroup: gv.Group, APIVersion: gv.Version, Resource: k.Resource, Subresource: subresource,
		Namespace: namespace, Name: name, ResourceRequest: true,
	}
	decision, reason, err := a.authorizer.Authorize(ctx, attributes)
	if decision == authorizer.DecisionAllow {
		return nil
	}
	if err != nil {
		reason = err.Error()
	}
	return api.Forbidden(attributes, reason)
}

// writer lets controllers write as clients of the API do.
type writer struct {
	registry *registry.Registry
	user     user.Info
}

// Begin implements controller.Writer.
func (w writer) Begin() controller.Transaction { return transaction{w.registry.Begin(), w.user} }

type transaction struct {
	*registry.Transaction
	user user.Info
}

// on is a request of the writer's user.
func (t transaction) on(resource, namespace, name string) *registry.Request {
	r := registry.On(resource, namespace, name)
	r.User = t.user
	return r
}

func (t transaction) Create(ctx context.Context, resource string, o store.Object) (store.Object, error) {
	return t.Transaction.Create(ctx, t.on(resource, o.GetNamespace(), o.GetName()), o)
}

func (t transaction) Modify(ctx context.Context, resource, subresource, namespace, name string, change func(store.Object) (store.Object, error)) error {
	r := t.on(resource, namespace, name)
	r.Subresource = subresource
	_, err := t.Transaction.Modify(ctx, r, change)
	return err
}

func (t transaction) Delete(ctx context.Context, resource string, o store.Object, opts *metav1.DeleteOptions) error {
	return t.Transaction.Delete(ctx, t.on(resource, o.GetNamespace(), o.GetName()), opts)
}

// remover takes pods away from nodes that are gone or tainted.
type remover struct{ registry *registry.Registry }

func (r remover) Evict(ctx context.Context, pod *v1.Pod, reason, message string) error {
	uid := pod.UID
	err := r.mark(ctx, pod, func(status *v1.PodStatus) { disrupt(status, pod.Generation, reason, message) })
	if err != nil {
		return ignoreGone(err)
	}
	_, _, err = r.registry.Delete(ctx, registry.On("pods", pod.Namespace, pod.Name), &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid},
	})
	return ignoreGone(err)
}

func (r remover) Collect(ctx context.Context, pod *v1.Pod, disruption string) error {
	uid, now := pod.UID, int64(0)
	if pod.Status.Phase != v1.PodSucceeded && pod.Status.Phase != v1.PodFailed {
		// No agent will say that the pod ended, and a Job may wait for that.
		err := r.mark(ctx, pod, func(status *v1.PodStatus) {
			status.Phase = v1.PodFailed
			if disruption != "" {
				disrupt(status, pod.Generation, "DeletionByPodGC", disruption)
			}
		})
		if err != nil {
			return ignoreGone(err)
		}
	}
	_, _, err := r.registry.Delete(ctx, registry.On("pods", pod.Namespace, pod.Name), &metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &uid}, GracePeriodSeconds: &now,
	})
	return ignoreGone(err)
}

// mark changes the pod's status before it goes.
func (r remover) mark(ctx context.Context, pod *v1.Pod, change func(*v1.PodStatus)) error {
	_, err := r.registry.Store().Update(ctx, store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name}, func(o store.Object) (store.Object, error) {
		have, ok := o.(*v1.Pod)
		if !ok || have.UID != pod.UID {
			return o, nil
		}
		next := have.DeepCopy()
		change(&next.Status)
		return next, nil
	})
	return err
}

// disrupt adds the condition by which Jobs and users see that the pod did not
// end by itself.
func disrupt(status *v1.PodStatus, generation int64, reason, message string) {
	condition := v1.PodCondition{
		Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: reason, Message: message,
		LastTransitionTime: metav1.Now(), ObservedGeneration: generation,
	}
	for i := range status.Conditions {
		if status.Conditions[i].Type == v1.DisruptionTarget {
			status.Conditions[i] = condition
			return
		}
	}
	status.Conditions = append(status.Conditions, condition)
}

func ignoreGone(err error) error {
	if errors.Is(err, store.ErrNotFound) || isNotFound(err) {
		return nil
	}
	return err
}

// claim lets a client bind a pod only where the scheduler, which may be about
// to use the same room, can reserve it.
func (h *Host) claim(ctx context.Context, pod *v1.Pod, node string) (done func(error), err error) {
	done, err = h.scheduler.Claim(ctx, pod, node)
	if errors.Is(err, schedule.ErrNoRoom) {
		gr := schema.GroupResource{Resource: "pods/binding"}
		return nil, apierrors.NewConflict(gr, pod.Name, fmt.Errorf("node %s cannot take it: %w", node, err))
	}
	return done, err
}

// podRecorder tells of pods in the scheduler's name.
type podRecorder struct{ *event.Recorder }

func (r podRecorder) Event(pod *v1.Pod, kind, reason, message string) {
	r.Recorder.Event(pod, kind, reason, message)
}
