// Package objects gives what pods refer to: ConfigMaps, Secrets, Services,
// claims, volumes and tokens, read by client-go.
//
// What was read a moment ago is not asked for again, but for what starts now; and what
// was read once is good for as long as the API does not answer: so containers go on restarting
// while it is away.
package objects

import (
	"context"
	"fmt"
	"sync"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	nodev1 "k8s.io/api/node/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"

	"github.com/berth-dev/berth/nodeagent/catalog"
	"github.com/berth-dev/berth/nodeagent/podspec"
)

// fresh is how long an object is believed without asking.
const fresh = 30 * time.Second

// forget is how long an object that nobody asks for is kept.
const forget = 30 * time.Minute

// Objects reads and remembers.
type Objects struct {
	client   kubernetes.Interface
	services corelisters.ServiceLister
	synced   func() bool

	mu   sync.Mutex
	seen map[key]*entry
}

type key struct{ kind, namespace, name string }

type entry struct {
	obj         any
	read, asked time.Time
}

// New gives a reader, which has the services of a catalog.
func New(client kubernetes.Interface, services *catalog.Catalog) *Objects {
	return &Objects{
		client: client, services: services.Services().Lister(), synced: services.Services().Informer().HasSynced, seen: map[key]*entry{},
	}
}

// Services lists the services of a namespace; it fails until they are known.
func (o *Objects) Services(namespace string) ([]*v1.Service, error) {
	if !o.synced() {
		return nil, fmt.Errorf("services have not yet been read at least once, cannot construct envvars")
	}
	return o.services.Services(namespace).List(labels.Everything())
}

// get reads by way of what is remembered.
func get[T any](ctx context.Context, o *Objects, kind, namespace, name string, read func() (T, error)) (T, error) {
	k := key{kind, namespace, name}
	now := time.Now()
	o.mu.Lock()
	e := o.seen[k]
	if e != nil {
		e.asked = now
		if now.Sub(e.read) < fresh && !podspec.IsAnew(ctx) {
			o.mu.Unlock()
			return e.obj.(T), nil
		}
	}
	o.mu.Unlock()
	obj, err := read()
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case err == nil:
		o.seen[k] = &entry{obj: obj, read: now, asked: now}
		o.sweep(now)
		return obj, nil
	case apierrors.IsNotFound(err) || apierrors.IsForbidden(err):
		delete(o.seen, k)
		return obj, err
	case e != nil:
		return e.obj.(T), nil // the API is away: what it said last still holds
	}
	return obj, err
}

// sweep forgets what nobody asks for; o.mu is held.
func (o *Objects) sweep(now time.Time) {
	for k, e := range o.seen {
		if now.Sub(e.asked) > forget {
			delete(o.seen, k)
		}
	}
}

// ConfigMap reads a ConfigMap.
func (o *Objects) ConfigMap(ctx context.Context, namespace, name string) (*v1.ConfigMap, error) {
	return get(ctx, o, "ConfigMap", namespace, name, func() (*v1.ConfigMap, error) {
		return o.client.CoreV1().ConfigMaps(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// Secret reads a Secret.
func (o *Objects) Secret(ctx context.Context, namespace, name string) (*v1.Secret, error) {
	return get(ctx, o, "Secret", namespace, name, func() (*v1.Secret, error) {
		return o.client.CoreV1().Secrets(namespace).Get(ctx, name, metav1.GetOptions{})
	})
}

// Claim reads a PersistentVolumeClaim, always anew: it is about to be bound.
func (o *Objects) Claim(ctx context.Context, namespace, name string) (*v1.PersistentVolumeClaim, error) {
	return o.client.CoreV1().PersistentVolumeClaims(namespace).Get(ctx, name, metav1.GetOptions{})
}

// Volume reads a PersistentVolume.
func (o *Objects) Volume(ctx context.Context, name string) (*v1.PersistentVolume, error) {
	return o.client.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
}

// Handler is the name of the runtime that a RuntimeClass stands for.
func (o *Objects) Handler(ctx context.Context, class string) (string, error) {
	found, err := get(ctx, o, "RuntimeClass", "", class, func() (*nodev1.RuntimeClass, error) {
		return o.client.NodeV1().RuntimeClasses().Get(ctx, class, metav1.GetOptions{})
	})
	if err != nil {
		return "", fmt.Errorf("RuntimeClass %q: %w", class, err)
	}
	return found.Handler, nil
}

// Token asks for a service account's token.
func (o *Objects) Token(ctx context.Context, namespace, account string, req *authv1.TokenRequest) (*authv1.TokenRequest, error) {
	return o.client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, account, req, metav1.CreateOptions{})
}
