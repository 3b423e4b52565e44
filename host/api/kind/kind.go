package kind

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/registry/rest"
)

// Strategy is how objects of a kind are prepared, validated and warned about.
// It sees internal types, as Kubernetes' own strategies do.
type Strategy interface {
	rest.RESTCreateStrategy
	rest.RESTUpdateStrategy
}

// Kind describes one kind.
type Kind struct {
	// Name is the kind's name in manifests: "Pod".
	Name string
	// Resource is its plural in paths: "pods". Singular is by default Name in
	// lower case.
	Resource, Singular string
	// Served lists where it is served. The first is the version that is stored.
	Served     []schema.GroupVersion
	Namespaced bool
	Short      []string
	Categories []string
	// Verbs are those of the collection and its objects; nil means all.
	Verbs []string
	// Strategy is nil for kinds that are not stored.
	Strategy Strategy
	// Subresources in the order in which discovery lists them.
	Subresources []Subresource
	// Field answers field selectors beyond metadata.name and
	// metadata.namespace, by the label that the kind's conversion gives.
	Field func(obj store.Object, label string) string
	// Scale is set for kinds with a scale subresource.
	Scale *Scale
	// OrphanByDefault keeps dependents when a deletion says nothing of them.
	OrphanByDefault bool
	// ShowsDeleted answers a deletion with the object instead of a Status.
	ShowsDeleted bool
	// DefaultAgain marks kinds whose preparation leaves something that defaults
	// fill: Kubernetes defaults once more whenever it reads an object.
	DefaultAgain bool
	// CopyToConvert marks kinds whose conversion to the internal version writes
	// to what it is given.
	CopyToConvert bool
	// MaxParts is how long a list of parts may be where a thousand is too
	// few.
	MaxParts int
	// Replicas spares objects that resemble one another most of preparation and
	// validation; nil for kinds that come one by one.
	Replicas *Replicas
	// Columns is set for kinds that Kubernetes has no printer for.
	Columns *Columns

	group    string
	stored   reflect.Type
	internal reflect.Type
}

// Subresource is a part of an object, or something to do with it.
type Subresource struct {
	Name  string
	Verbs []string
	// Body is the kind that is sent and answered; empty means the object's own.
	Body schema.GroupVersionKind
	// Strategy updates a part of the object: status, ephemeralcontainers.
	Strategy rest.RESTUpdateStrategy
	// Connect marks streams and proxies: a handler from outside answers.
	Connect bool
}

// Verbs of a stored kind.
var allVerbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// GroupResource is the kind's name in the store and in errors.
func (k *Kind) GroupResource() schema.GroupResource {
	return schema.GroupResource{Group: k.group, Resource: k.Resource}
}

// StoreName is the resource of its keys: "pods", "deployments.apps".
func (k *Kind) StoreName() string {
	if k.group == "" {
		return k.Resource
	}
	return k.Resource + "." + k.group
}

// Key names one object of the kind in the store.
func (k *Kind) Key(namespace, name string) store.Key {
	if !k.Namespaced {
		namespace = ""
	}
	return store.Key{Resource: k.StoreName(), Namespace: namespace, Name: name}
}

// Stored is the version that objects are held in.
func (k *Kind) Stored() schema.GroupVersion { return k.Served[0] }

// GVK is the kind in the version that is stored.
func (k *Kind) GVK() schema.GroupVersionKind { return k.Served[0].WithKind(k.Name) }

// Serves tells whether gv is one of the kind's versions.
func (k *Kind) Serves(gv schema.GroupVersion) bool { return slices.Contains(k.Served, gv) }

// Can tells whether the kind knows a verb.
func (k *Kind) Can(verb string) bool { return slices.Contains(k.AllVerbs(), verb) }

// AllVerbs lists the verbs of the kind itself, sorted.
func (k *Kind) AllVerbs() []string {
	if k.Verbs != nil {
		return k.Verbs
	}
	return allVerbs
}

// Sub finds a subresource.
func (k *Kind) Sub(name string) (*Subresource, bool) {
	for i := range k.Subresources {
		if k.Subresources[i].Name == name {
			return &k.Subresources[i], true
		}
	}
	return nil, false
}

// New makes an empty object of the stored version.
func (k *Kind) New() store.Object { return reflect.New(k.stored).Interface().(store.Object) }

// NewIn makes an empty object of one of the served versions.
func (k *Kind) NewIn(gv schema.GroupVersion) (runtime.Object, error) {
	if gv == k.Stored() {
		return k.New(), nil
	}
	return Scheme.New(gv.WithKind(k.Name))
}

// Own tells whether Berth defined the kind: it has one version, no internal
// one, and no protobuf form.
func (k *Kind) Own() bool { return k.internal == nil }

// PatchTypes are the media types of patches that the kind takes. A strategic
// merge patch needs to know how lists merge, which only Kubernetes' own kinds
// say: as with custom resources, others do without.
func (k *Kind) PatchTypes() []string {
	if k.Own() {
		return []string{string(types.JSONPatchType), string(types.MergePatchType), string(types.ApplyPatchType)}
	}
	return AllPatchTypes
}

// AllPatchTypes are the media types of patches that some kind takes.
var AllPatchTypes = []string{
	string(types.JSONPatchType), string(types.MergePatchType), string(types.StrategicMergePatchType), string(types.ApplyPatchType),
}

// Shallow copies the object without what its fields point to, so that its type
// can be named in an answer while the original stays as it is.
func (k *Kind) Shallow(obj store.Object) store.Object {
	v := reflect.New(reflect.TypeOf(obj).Elem())
	v.Elem().Set(reflect.ValueOf(obj).Elem())
	return v.Interface().(store.Object)
}

// Internal converts a stored object for validation and printing. The two may
// share memory: neither may be changed afterwards if the other is still used.
func (k *Kind) Internal(obj store.Object) (runtime.Object, error) {
	if k.Own() {
		return obj, nil
	}
	if k.CopyToConvert {
		obj = obj.DeepCopyObject().(store.Object)
	}
	out := reflect.New(k.internal).Interface().(runtime.Object)
	if err := Scheme.Convert(obj, out, nil); err != nil {
		return nil, fmt.Errorf("convert %s to its internal version: %w", k.Name, err)
	}
	return out, nil
}

// External is the way back. The two may share memory.
func (k *Kind) External(obj runtime.Object) (store.Object, error) {
	if k.Own() {
		return obj.(store.Object), nil
	}
	out := k.New()
	if err := Scheme.Convert(obj, out, nil); err != nil {
		return nil, fmt.Errorf("convert %s to its stored version: %w", k.Name, err)
	}
	return out, nil
}

// In converts a stored object to one of the served versions. It is the object
// itself for the stored version; the two may share memory.
func (k *Kind) In(gv schema.GroupVersion, obj store.Object) (store.Object, error) {
	if gv == k.Stored() {
		return obj, nil
	}
	hub, err := k.Internal(obj)
	if err != nil {
		return nil, err
	}
	out, err := k.NewIn(gv)
	if err != nil {
		return nil, err
	}
	if err := Scheme.Convert(hub, out, nil); err != nil {
		return nil, fmt.Errorf("convert %s to %s: %w", k.Name, gv, err)
	}
	return out.(store.Object), nil
}

// From converts an object of a served version to the stored one.
func (k *Kind) From(obj runtime.Object) (store.Object, error) {
	if reflect.TypeOf(obj).Elem() == k.stored {
		return obj.(store.Object), nil
	}
	hub := reflect.New(k.internal).Interface().(runtime.Object)
	if err := Scheme.Convert(obj, hub, nil); err != nil {
		return nil, fmt.Errorf("convert %T: %w", obj, err)
	}
	return k.External(hub)
}
