package controller

import (
	"encoding/json"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// gathered is what a guest is asked about, with the objects that its answer may
// name.
type gathered struct {
	Input
	parent store.Object
	byUID  map[string]named
	// there is what answers about it want to create and found, or nil. Answers that
	// are compared share it, so that what comes into being meanwhile is no difference.
	there map[store.Key]store.Object
}

// named is an object that an answer may name.
type named struct {
	w *kindWatch
	o store.Object
}

func (n named) key() store.Key { return n.w.key(n.o.GetNamespace(), n.o.GetName()) }

// Input is what the guest is told of a parent.
func (d *Driver) Input(parent store.Object) (*Input, error) {
	g, err := d.gather(parent)
	if err != nil {
		return nil, err
	}
	return &g.Input, nil
}

// gather reads the parent's children, orphans that it selects, and what is
// related to it.
func (d *Driver) gather(parent store.Object) (*gathered, error) {
	g := &gathered{parent: parent, byUID: map[string]named{string(parent.GetUID()): {&d.parent, parent}}}
	g.Now = d.Now().UnixNano()
	if d.Guest.Seeded() {
		g.Seed = d.Seed()
	}
	var err error
	if g.Parent, err = d.object(&d.parent, parent); err != nil {
		return nil, err
	}
	for i := range d.children {
		w := &d.children[i]
		found, err := d.childrenOf(w, parent)
		if err != nil {
			return nil, err
		}
		if g.Children, err = d.objects(g, w, found, g.Children); err != nil {
			return nil, err
		}
	}
	for i := range d.related {
		w := &d.related[i]
		found, err := d.relatedTo(g, w)
		if err != nil {
			return nil, err
		}
		if g.Related, err = d.objects(g, w, found, g.Related); err != nil {
			return nil, err
		}
	}
	return g, nil
}

func (d *Driver) childrenOf(w *kindWatch, parent store.Object) ([]store.Object, error) {
	if w.kind.By == abi.ByName {
		return d.named(w, parent), nil
	}
	found := d.controlled(w, &d.parent.kind, parent)
	going := d.parent.kind.Gone // it takes back what it left, also where something goes
	if parent.GetDeletionTimestamp() != nil && !going {
		return found, nil
	}
	selector := w.selector(parent)
	if selector.Empty() {
		return found, nil
	}
	loose, err := d.orphans(w, parent.GetNamespace())
	for _, o := range loose {
		if (o.GetDeletionTimestamp() == nil || going) && metav1.GetControllerOfNoCopy(o) == nil && selector.Matches(labelSet(o)) {
			found = append(found, o)
		}
	}
	return found, err
}

// controlled are the objects of a kind that the owner controls.
func (d *Driver) controlled(w *kindWatch, kind *Kind, owner metav1.Object) (found []store.Object) {
	for _, o := range d.Objects.Indexed(w.Resource, IndexByOwner, string(owner.GetUID())) {
		if ControlledBy(o, kind, owner) {
			found = append(found, o)
		}
	}
	return found
}

// orphans are those that may be some, for kinds that many look for by index.
func (d *Driver) orphans(w *kindWatch, namespace string) ([]store.Object, error) {
	if slices.Contains(adoptable, w.Resource) {
		return d.Objects.Indexed(w.Resource, IndexOrphans, namespace), nil
	}
	list, err := d.Objects.List(w.Resource, namespace, store.ListOptions{})
	return list.Items, err
}

func (d *Driver) named(w *kindWatch, parent store.Object) []store.Object {
	name, namespaces := parent.GetName(), slices.Compact([]string{parent.GetNamespace(), ""})
	if w.kind.Path != "" {
		if ref, ok := referenceAt(parent, w.kind.Path); !ok {
			name = textAt(parent, w.kind.Path)
		} else if ref != nil {
			name, namespaces = ref.Name, []string{ref.Namespace}
		} else {
			return nil
		}
	}
	for _, namespace := range namespaces {
		if o, ok := d.Objects.Get(w.key(namespace, name)); ok && name != "" {
			return []store.Object{o}
		}
	}
	return nil
}

func (d *Driver) relatedTo(g *gathered, w *kindWatch) ([]store.Object, error) {
	opts, namespace := store.ListOptions{}, g.parent.GetNamespace()
	switch w.kind.By {
	case abi.ByName:
		return d.named(w, g.parent), nil
	case abi.ByChildren:
		var found []store.Object
		for i := range g.Children {
			c := &g.Children[i]
			found = append(found, d.controlled(w, &c.Kind, c.Object)...)
		}
		return found, nil
	case abi.ByOrdinal:
		names := namesAt(g.parent, w.kind.Path)
		if len(names) == 0 {
			return nil, nil
		}
		opts.Match = func(o store.Object) bool { return ordinalOf(o.GetName(), g.parent.GetName(), names) }
	case abi.ByReference:
		if referred[w.Resource] == w.kind.Path {
			named := d.Objects.Indexed(w.Resource, IndexReference, referenceIndex(namespace, g.parent.GetName()))
			return append(named, d.Objects.Indexed(w.Resource, IndexReference, "")...), nil
		}
		namespace = ""
		opts.Match = func(o store.Object) bool {
			ref, _ := referenceAt(o, w.kind.Path)
			return ref == nil || ref.Name == g.parent.GetName() && ref.Namespace == g.parent.GetNamespace()
		}
	case abi.ByClaim:
		return d.claiming(g.parent), nil
	case abi.ByTarget:
		return d.selected(w, namespace, selectorAt(at(g.target(w.kind.Path), "spec.selector"), false))
	case abi.ByNamespace:
	case abi.ByCluster:
		namespace = ""
	default:
		return d.selected(w, namespace, w.selector(g.parent))
	}
	list, err := d.Objects.List(w.Resource, namespace, opts)
	return list.Items, err
}

// selected are the objects of a namespace that a selector matches. Pods are found
// by one label that it asks for: there may be very many of others.
func (d *Driver) selected(w *kindWatch, namespace string, selector labels.Selector) ([]store.Object, error) {
	requirements, selectable := selector.Requirements()
	if !selectable {
		return nil, nil
	}
	if key, value := oneLabel(requirements); key != "" && w.Resource == "pods" {
		found := d.Objects.Indexed(w.Resource, IndexLabel, labelIndex(namespace, key, value))
		return slices.DeleteFunc(found, func(o store.Object) bool { return !selector.Matches(labelSet(o)) }), nil
	}
	list, err := d.Objects.List(w.Resource, namespace, store.ListOptions{
		Match: func(o store.Object) bool { return selector.Matches(labelSet(o)) },
	})
	return list.Items, err
}

// target is the related object that a reference of the parent names; the parent
// itself where there is none.
func (g *gathered) target(path string) store.Object {
	kind, name := textAt(g.parent, path+".kind"), textAt(g.parent, path+".name")
	for i := range g.Related {
		if r := &g.Related[i]; r.Kind.Kind == kind && r.Object.GetName() == name {
			return r.Object.(store.Object)
		}
	}
	return g.parent
}

func (d *Driver) objects(g *gathered, w *kindWatch, found []store.Object, to []Object) ([]Object, error) {
	to = slices.Grow(to, len(found))
	for _, o := range found {
		one, err := d.object(w, o)
		if err != nil {
			return nil, err
		}
		if _, twice := g.byUID[string(o.GetUID())]; !twice {
			g.byUID[string(o.GetUID())] = named{w, o}
		}
		to = append(to, one)
	}
	return to, nil
}

// object is an object with the fields and facts that its kind asks for.
func (d *Driver) object(w *kindWatch, o store.Object) (Object, error) {
	values, err := w.fields.of(o)
	if err != nil {
		return Object{}, fmt.Errorf("%s %s: %w", w.Resource, o.GetName(), err)
	}
	one := Object{Kind: w.kind, Object: o, Fields: values}
	for _, name := range w.kind.Facts {
		if pod, ok := o.(*v1.Pod); ok && name == abi.FactPod {
			facts := podFacts(pod)
			one.Pod = &facts
			one.Fields = append(one.Fields, nil)
			continue
		}
		if name == abi.FactMemory {
			one.Fields = append(one.Fields, d.memories.of(o.GetUID()))
			continue
		}
		if name == abi.FactMetrics {
			var value json.RawMessage
			if d.Metrics != nil {
				value, _ = d.Metrics.Of(o)
			}
			one.Fields = append(one.Fields, value)
			continue
		}
		value, err := d.facts.of(name, o)
		if err != nil {
			return Object{}, fmt.Errorf("%s %s: fact %s: %w", w.Resource, o.GetName(), name, err)
		}
		one.Fields = append(one.Fields, value)
	}
	return one, nil
}
