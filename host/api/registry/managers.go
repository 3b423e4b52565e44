package registry

import (
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apiserver/pkg/registry/rest"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
)

// managers keep track of who set which field (metadata.managedFields).
//
// Tracking costs more than all the rest of a create, so it starts where it is
// of use: an object is tracked from its creation when its creator names a field
// manager, as kubectl does, and otherwise from the first server-side apply on.
// What was set before then belongs to the manager "before-first-apply", as with
// objects that Kubernetes itself did not track.
type managers struct {
	mu  sync.Mutex
	all map[managed]*managedfields.FieldManager

	schemas func() managedfields.TypeConverter
}

// managed is what a field manager is made for.
type managed struct {
	kind        *kind.Kind
	version     schema.GroupVersion
	subresource string
}

func newManagers() *managers {
	return &managers{
		all: map[managed]*managedfields.FieldManager{},
		schemas: sync.OnceValue(func() managedfields.TypeConverter {
			return applyconfigurations.NewTypeConverter(kind.Scheme)
		}),
	}
}

func (m *managers) get(r *Request) (*managedfields.FieldManager, error) {
	of := managed{r.Kind, r.version(), r.Subresource}
	m.mu.Lock()
	defer m.mu.Unlock()
	if fm, ok := m.all[of]; ok {
		return fm, nil
	}
	make, types := managedfields.NewDefaultFieldManager, m.schemas
	if r.Kind.Own() || !described(m.schemas(), r.Kind) {
		make, types = managedfields.NewDefaultCRDFieldManager, managedfields.NewDeducedTypeConverter
	}
	fm, err := make(types(), converter{r.Kind}, kind.Scheme, kind.Scheme,
		of.version.WithKind(r.Kind.Name), r.Kind.Stored(), r.Subresource, resetFields(r))
	if err != nil {
		return nil, fmt.Errorf("track fields of %s: %w", r.Kind.Name, err)
	}
	m.all[of] = fm
	return fm, nil
}

// described tells whether the schemas, which are client-go's, have the kind: those of
// the aggregation layer are not among them.
func described(schemas managedfields.TypeConverter, k *kind.Kind) bool {
	empty := k.New()
	empty.GetObjectKind().SetGroupVersionKind(k.GVK())
	_, err := schemas.ObjectToTyped(empty)
	return err == nil
}

// resetFields are those that writes through this path cannot set, so nobody
// becomes their manager.
func resetFields(r *Request) map[fieldpath.APIVersion]fieldpath.Filter {
	var strategy any = r.Kind.Strategy
	if sub, ok := r.Kind.Sub(r.Subresource); ok && sub.Strategy != nil {
		strategy = sub.Strategy
	}
	switch s := strategy.(type) {
	case rest.ResetFieldsStrategy:
		return fieldpath.NewExcludeFilterSetMap(s.GetResetFields())
	case rest.ResetFieldsFilterStrategy:
		return s.GetResetFieldsFilter()
	}
	var paths []fieldpath.Path
	switch _, hasStatus := r.Kind.Sub("status"); {
	case r.Subresource == "status":
		paths = append(paths, fieldpath.MakePathOrDie("spec"))
	case r.Subresource == "" && hasStatus && r.Kind.Name != "Node":
		paths = append(paths, fieldpath.MakePathOrDie("status"))
	}
	sets := map[fieldpath.APIVersion]*fieldpath.Set{}
	for _, gv := range r.Kind.Served {
		sets[fieldpath.APIVersion(gv.String())] = fieldpath.NewSet(paths...)
	}
	return fieldpath.NewExcludeFilterSetMap(sets)
}

// trackCreate notes the creator as manager of what it set.
func (reg *Registry) trackCreate(r *Request, obj store.Object) error {
	if r.applied || r.Manager == "" && len(obj.GetManagedFields()) == 0 {
		return nil
	}
	fm, err := reg.managers.get(r)
	if err != nil {
		return err
	}
	fm.UpdateNoErrors(r.Kind.New(), obj, r.manager())
	return nil
}

// trackUpdate notes who changed what, in objects that are tracked.
func (reg *Registry) trackUpdate(r *Request, old, obj store.Object) error {
	if r.applied {
		return nil
	}
	if len(old.GetManagedFields()) == 0 {
		obj.SetManagedFields(nil)
		return nil
	}
	fm, err := reg.managers.get(r)
	if err != nil {
		return err
	}
	fm.UpdateNoErrors(old, obj, r.manager())
	return nil
}

// settleManaged keeps the old times when an update changed nothing else, so
// that it stays an update of nothing.
func settleManaged(old, obj store.Object) {
	was, now := old.GetManagedFields(), obj.GetManagedFields()
	if len(was) == 0 || len(was) != len(now) {
		return
	}
	for i := range now {
		entry := now[i]
		entry.Time = was[i].Time
		if !apiequality.Semantic.DeepEqual(entry, was[i]) {
			return
		}
	}
	obj.SetManagedFields(was)
	if apiequality.Semantic.DeepEqual(old, obj) {
		return
	}
	obj.SetManagedFields(now)
}

// manager is the name that the client gave, or the one that its program has.
func (r *Request) manager() string {
	if r.Manager != "" {
		return r.Manager
	}
	const longest = 128
	name, _, _ := strings.Cut(r.Agent, "/")
	var b strings.Builder
	for _, c := range name {
		if !unicode.IsPrint(c) || b.Len() >= longest {
			continue
		}
		b.WriteRune(c)
	}
	return b.String()
}

// converter gives field managers the object in the version that an entry of
// managedFields speaks of. What it gives is theirs to name; the object stays.
type converter struct{ kind *kind.Kind }

var _ runtime.ObjectConvertor = converter{}

func (c converter) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	if u, ok := in.(*unstructured.Unstructured); ok {
		typed, err := c.typed(u)
		if err != nil {
			return nil, err
		}
		in = typed
	}
	obj, ok := in.(store.Object)
	if !ok {
		return kind.Scheme.ConvertToVersion(in, target)
	}
	gvk, ok := target.KindForGroupVersionKinds(c.kinds())
	if !ok {
		return nil, fmt.Errorf("%s is not served in %v", c.kind.Name, target)
	}
	out := obj
	stored, err := c.kind.From(obj)
	if err != nil {
		return nil, err
	}
	if out, err = c.kind.In(gvk.GroupVersion(), stored); err != nil {
		return nil, err
	}
	if out == obj {
		out = c.kind.Shallow(obj)
	}
	out.GetObjectKind().SetGroupVersionKind(gvk)
	return out, nil
}

// typed makes the Go type of what field managers merge as maps. It leaves
// defaults to them.
func (c converter) typed(u *unstructured.Unstructured) (runtime.Object, error) {
	out, err := c.kind.NewIn(u.GroupVersionKind().GroupVersion())
	if err != nil {
		return nil, err
	}
	return out, runtime.DefaultUnstructuredConverter.FromUnstructured(u.UnstructuredContent(), out)
}

func (c converter) kinds() []schema.GroupVersionKind {
	var gvks []schema.GroupVersionKind
	for _, gv := range c.kind.Served {
		gvks = append(gvks, gv.WithKind(c.kind.Name))
	}
	return gvks
}

func (c converter) Convert(in, out, context any) error { return kind.Scheme.Convert(in, out, context) }

func (c converter) ConvertFieldLabel(gvk schema.GroupVersionKind, label, value string) (string, string, error) {
	return kind.Scheme.ConvertFieldLabel(gvk, label, value)
}

// now is the time that a write leaves in an object.
func now() metav1.Time { return metav1.NewTime(time.Now()) }
