package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Names of what each namespace has.
const (
	DefaultAccount = "default"
	RootConfigMap  = "kube-root-ca.crt"
	rootKey        = "ca.crt"
)

// Defaults gives each namespace its account and the cluster's certificate.
type Defaults struct {
	objects view.Store
	root    []byte
	now     func() time.Time
}

// NewDefaults publishes root, a certificate in PEM.
func NewDefaults(objects view.Store, root []byte, now func() time.Time) *Defaults {
	return &Defaults{objects: objects, root: root, now: now}
}

// Ops are the writes that set up a new namespace; they go into the transaction
// that creates it, so that a pod can be created right behind.
func (d *Defaults) Ops(namespace string) []store.Op {
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: DefaultAccount}}
	return []store.Op{view.Fresh(view.ServiceAccounts, account, d.now()), view.Fresh(view.ConfigMaps, d.rootConfig(namespace), d.now())}
}

func (d *Defaults) rootConfig(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: namespace, Name: RootConfigMap,
			Annotations: map[string]string{"kubernetes.io/description": "The certificate of the authority that the API server's certificate can be checked with."},
		},
		Data: map[string]string{rootKey: string(d.root)},
	}
}

// Restore gives back to each namespace what was taken from it or changed.
func (d *Defaults) Restore(ctx context.Context) error {
	namespaces, err := view.List[*corev1.Namespace](ctx, d.objects, view.Namespaces, "")
	if err != nil {
		return fmt.Errorf("set up namespaces: %w", err)
	}
	for _, ns := range namespaces {
		if ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
			continue
		}
		if err := d.restore(ctx, ns.Name); err != nil {
			return fmt.Errorf("set up namespace %s: %w", ns.Name, err)
		}
	}
	return nil
}

func (d *Defaults) restore(ctx context.Context, namespace string) error {
	var ops []store.Op
	for _, op := range d.Ops(namespace) {
		have, err := d.objects.Get(ctx, op.Key)
		if view.Missing(err) {
			op.Requires = store.Key{Resource: view.Namespaces, Name: namespace}
			ops = append(ops, op)
			continue
		}
		if err != nil {
			return err
		}
		if config, ok := have.(*corev1.ConfigMap); ok && config.Data[rootKey] != string(d.root) && config.DeletionTimestamp == nil {
			mended := config.DeepCopy()
			mended.Data = map[string]string{rootKey: string(d.root)}
			mended.BinaryData = nil
			ops = append(ops, store.Op{Kind: store.Update, Key: op.Key, Object: mended})
		}
	}
	if len(ops) == 0 {
		return nil
	}
	_, err := d.objects.Commit(ctx, ops...)
	if errors.Is(err, store.ErrExists) || view.Missing(err) || errors.Is(err, store.ErrConflict) {
		return nil // somebody else was faster; its change wakes us again
	}
	return err
}
