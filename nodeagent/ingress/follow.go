package ingress

import (
	"context"
	"log/slog"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	networkinglisters "k8s.io/client-go/listers/networking/v1"
	"k8s.io/client-go/tools/cache"
)

// Controller is the one that classes of Ingresses name whose Ingresses are answered
// here.
const Controller = "berth.dev/ingress"

// settle is how long a change waits for others.
const settle = 20 * time.Millisecond

// Ours are the Ingresses of classes that name Controller.
func Ours(all []*networkingv1.Ingress, classes []*networkingv1.IngressClass) []*networkingv1.Ingress {
	names := map[string]bool{}
	for _, c := range classes {
		if c.Spec.Controller == Controller {
			names[c.Name] = true
		}
	}
	var out []*networkingv1.Ingress
	for _, i := range all {
		if names[classOf(i)] {
			out = append(out, i)
		}
	}
	return out
}

// classOf is the class that an Ingress names, perhaps in the way of old.
func classOf(i *networkingv1.Ingress) string {
	if i.Spec.IngressClassName != nil {
		return *i.Spec.IngressClassName
	}
	return i.Annotations["kubernetes.io/ingress.class"]
}

// Follow has a server answer for the cluster's Ingresses until ctx ends.
func Follow(ctx context.Context, client kubernetes.Interface, s *Server, log *slog.Logger) error {
	factory := informers.NewSharedInformerFactoryWithOptions(client, 0, informers.WithTransform(trim))
	kinds := factory.Networking().V1()
	wake := make(chan struct{}, 1)
	note := func(any) {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	for _, informer := range []cache.SharedIndexInformer{kinds.Ingresses().Informer(), kinds.IngressClasses().Informer()} {
		if err := informer.SetWatchErrorHandlerWithContext(func(_ context.Context, _ *cache.Reflector, err error) {
			log.Warn("the cluster's Ingresses cannot be followed; it is tried again", "err", err)
		}); err != nil {
			return err
		}
		if _, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: note, UpdateFunc: func(_, now any) { note(now) }, DeleteFunc: note}); err != nil {
			return err
		}
	}
	factory.Start(ctx.Done())
	defer factory.Shutdown()
	if !cache.WaitForCacheSync(ctx.Done(), kinds.Ingresses().Informer().HasSynced, kinds.IngressClasses().Informer().HasSynced) {
		return ctx.Err()
	}
	for {
		if err := update(s, kinds.Ingresses().Lister(), kinds.IngressClasses().Lister()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-wake:
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(settle):
		}
	}
}

func update(s *Server, ingresses networkinglisters.IngressLister, classes networkinglisters.IngressClassLister) error {
	all, err := ingresses.List(labels.Everything())
	if err != nil {
		return err
	}
	known, err := classes.List(labels.Everything())
	if err != nil {
		return err
	}
	s.Set(NewTable(Ours(all, known)))
	return nil
}

// trim drops what nobody reads here.
func trim(obj any) (any, error) {
	if o, err := meta.Accessor(obj); err == nil {
		o.SetManagedFields(nil)
	}
	return obj, nil
}

// PortOf is the port of a Service that a target means.
func PortOf(svc *v1.Service, port networkingv1.ServiceBackendPort) *v1.ServicePort {
	for i := range svc.Spec.Ports {
		if p := &svc.Spec.Ports[i]; port.Name != "" && p.Name == port.Name || port.Name == "" && p.Port == port.Number {
			return p
		}
	}
	return nil
}
