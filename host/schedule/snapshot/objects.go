package snapshot

import (
	"iter"

	"github.com/berth-dev/berth/abi"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// object is a cluster object that policies may read.
type object struct {
	resource string
	runtime.Object
}

// objects are the cluster's, by resource.
type objects map[string]map[types.NamespacedName]object

// ObjectsOf implements Log.
func (o objects) ObjectsOf(groups abi.Groups) (n int) {
	if groups&anyObject == 0 {
		return 0
	}
	for resource, all := range o {
		if groups&objectGroups[resource] != 0 {
			n += len(all)
		}
	}
	return n
}

const anyObject = abi.Services | abi.Owners | abi.Namespaces | abi.Volumes

// Resources of cluster objects, as group-resources, and the group that each is of.
var objectGroups = map[string]abi.Groups{
	"services":                            abi.Services,
	"replicationcontrollers":              abi.Owners,
	"replicasets.apps":                    abi.Owners,
	"statefulsets.apps":                   abi.Owners,
	"namespaces":                          abi.Namespaces,
	"persistentvolumes":                   abi.Volumes,
	"persistentvolumeclaims":              abi.Volumes,
	"storageclasses.storage.k8s.io":       abi.Volumes,
	"csinodes.storage.k8s.io":             abi.Volumes,
	"csidrivers.storage.k8s.io":           abi.Volumes,
	"csistoragecapacities.storage.k8s.io": abi.Volumes,
	"volumeattachments.storage.k8s.io":    abi.Volumes,
}

// ObjectGroup is the group of a resource's facts, 0 for one that policies
// don't read.
func ObjectGroup(resource string) abi.Groups { return objectGroups[resource] }

// Object is what the cluster keeps of Kubernetes objects.
type Object interface {
	metav1.Object
	runtime.Object
}

// UpsertObject adds a cluster object or changes it.
func (c *Cluster) UpsertObject(resource string, o Object) {
	groups := objectGroups[resource]
	if groups == 0 {
		return
	}
	all := c.objects[resource]
	if all == nil {
		all = map[types.NamespacedName]object{}
		c.objects[resource] = all
	}
	key := types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
	old := all[key].Object
	all[key] = object{resource: resource, Object: o}
	c.history.next()
	c.tellObject(ObjectUpsert, &objectChange{resource: resource, before: old, after: o}, groups)
}

// RemoveObject takes a cluster object away.
func (c *Cluster) RemoveObject(resource, namespace, name string) {
	key := types.NamespacedName{Namespace: namespace, Name: name}
	old, ok := c.objects[resource][key]
	if !ok {
		return
	}
	delete(c.objects[resource], key)
	c.history.next()
	c.tellObject(ObjectRemove, &objectChange{resource: resource, before: old.Object}, objectGroups[resource])
}

// tellObject logs a change, which keeps what was before alive.
func (c *Cluster) tellObject(kind DeltaKind, change *objectChange, groups abi.Groups) {
	c.history.tell(change.delta(kind, groups), 0)
	holds := objectBytes
	if change.before != nil {
		holds = objectWeight(change.before)
	}
	c.history.note(change, -1, 0, holds)
}

// delta tells of the object; one that is gone as it was.
func (o *objectChange) delta(kind DeltaKind, groups abi.Groups) Delta {
	object := o.after
	if kind == ObjectRemove {
		object = o.before
	}
	return Delta{Kind: kind, Slot: -1, Groups: groups, Resource: o.resource, Object: object}
}

// Object returns a cluster object, nil where there is none.
func (c *Cluster) Object(resource, namespace, name string) runtime.Object {
	return c.objects[resource][types.NamespacedName{Namespace: namespace, Name: name}].Object
}

// Objects walks all objects of a resource, in no order.
func (c *Cluster) Objects(resource string) iter.Seq2[types.NamespacedName, runtime.Object] {
	return func(yield func(types.NamespacedName, runtime.Object) bool) {
		for key, o := range c.objects[resource] {
			if !yield(key, o.Object) {
				return
			}
		}
	}
}
