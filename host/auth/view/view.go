// Package view is what host/auth sees of the store: the newest committed state
// of objects, read from memory, and commits. An answer of authentication or
// authorization never waits for the disk.
package view

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/berth-dev/berth/host/store"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Objects reads. What it returns is shared and must not be changed.
type Objects interface {
	// Get gives the newest state of one object; store.ErrNotFound if there is
	// none.
	Get(ctx context.Context, key store.Key) (store.Object, error)
	// List gives all objects of a resource; namespace "" means everywhere.
	List(ctx context.Context, resource, namespace string) ([]store.Object, error)
	// Version grows whenever an object of the resource changes. Who keeps
	// something that was derived from objects keeps it by this number.
	Version(resource string) int64
}

// Store reads and writes.
type Store interface {
	Objects
	// Commit stores all or nothing.
	Commit(ctx context.Context, ops ...store.Op) (int64, error)
}

// Resources that this room reads or writes.
const (
	Namespaces          = "namespaces"
	Nodes               = "nodes"
	Pods                = "pods"
	Secrets             = "secrets"
	ConfigMaps          = "configmaps"
	ServiceAccounts     = "serviceaccounts"
	Volumes             = "persistentvolumes"
	Claims              = "persistentvolumeclaims"
	LimitRanges         = "limitranges"
	ResourceQuotas      = "resourcequotas"
	PriorityClasses     = "priorityclasses.scheduling.k8s.io"
	RuntimeClasses      = "runtimeclasses.node.k8s.io"
	StorageClasses      = "storageclasses.storage.k8s.io"
	Ingresses           = "ingresses.networking.k8s.io"
	IngressClasses      = "ingressclasses.networking.k8s.io"
	Leases              = "leases.coordination.k8s.io"
	Attachments         = "volumeattachments.storage.k8s.io"
	Roles               = "roles.rbac.authorization.k8s.io"
	RoleBindings        = "rolebindings.rbac.authorization.k8s.io"
	ClusterRoles        = "clusterroles.rbac.authorization.k8s.io"
	ClusterRoleBindings = "clusterrolebindings.rbac.authorization.k8s.io"
)

// HostPath is the provisioner of the StorageClass that this room makes: node agents and
// the policy that makes its volumes, which import nothing of a host, name it themselves.
const HostPath = "berth.dev/hostpath"

// Get is Objects.Get with the type that the caller expects.
func Get[T store.Object](ctx context.Context, objects Objects, resource, namespace, name string) (T, error) {
	var none T
	key := store.Key{Resource: resource, Namespace: namespace, Name: name}
	obj, err := objects.Get(ctx, key)
	if err != nil {
		return none, err
	}
	typed, ok := obj.(T)
	if !ok {
		return none, fmt.Errorf("%s is a %T, expected a %T", key, obj, none)
	}
	return typed, nil
}

// List is Objects.List with the type that the caller expects.
func List[T store.Object](ctx context.Context, objects Objects, resource, namespace string) ([]T, error) {
	all, err := objects.List(ctx, resource, namespace)
	if err != nil {
		return nil, err
	}
	typed := make([]T, 0, len(all))
	for _, obj := range all {
		one, ok := obj.(T)
		if !ok {
			return nil, fmt.Errorf("a %s is a %T, expected a %T", resource, obj, one)
		}
		typed = append(typed, one)
	}
	return typed, nil
}

// Missing tells that the object is not there.
func Missing(err error) bool { return errors.Is(err, store.ErrNotFound) }

// Fresh gives a new object what the API would have given it: an identity and
// the time of its creation. It returns the write that creates it.
func Fresh(resource string, obj store.Object, now time.Time) store.Op {
	obj.SetUID(types.UID(uuid.NewString()))
	obj.SetCreationTimestamp(metav1.NewTime(now.Truncate(time.Second)))
	return store.Op{Kind: store.Create, Key: KeyOf(resource, obj), Object: obj}
}

// KeyOf is the key under which obj lies.
func KeyOf(resource string, obj store.Object) store.Key {
	return store.Key{Resource: resource, Namespace: obj.GetNamespace(), Name: obj.GetName()}
}

// Revision is the revision at which obj was stored, 0 if it was not.
func Revision(obj store.Object) int64 {
	revision, err := strconv.ParseInt(obj.GetResourceVersion(), 10, 64)
	if err != nil {
		return 0
	}
	return revision
}
