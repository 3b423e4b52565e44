package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// Indexes of the store that the driver reads.
const (
	// IndexByOwner holds objects by the UIDs of their owners.
	IndexByOwner = "metadata.ownerReferences.uid"
	// IndexLabel holds pods by their namespace and each of their labels.
	IndexLabel = "metadata.labels"
	// IndexOrphans holds objects without a controller by their namespace.
	IndexOrphans = "orphans"
	// IndexClaims holds pods by their namespace and each claim of their volumes.
	IndexClaims = "claims"
	// IndexReference holds objects by the namespace and name that a reference of
	// theirs says, and those without one by "".
	IndexReference = "reference"
)

// Objects is the part of the store that the driver reads.
type Objects interface {
	Get(store.Key) (store.Object, bool)
	List(resource, namespace string, opts store.ListOptions) (store.List, error)
	Indexed(resource, index, value string) []store.Object
	Watch(resource, namespace string, from int64) (*store.Watch, error)
}

// Writer writes what guests want, as a user of the API would.
type Writer interface {
	Begin() Transaction
}

// Transaction gathers writes that are stored together or not at all. What is
// refused leaves no trace in it. Its errors are those of the API.
type Transaction interface {
	Get(store.Key) (store.Object, bool)
	Create(ctx context.Context, resource string, object store.Object) (store.Object, error)
	// Modify changes an object, or the part of it that the subresource is about.
	// The object that change gets is shared.
	Modify(ctx context.Context, resource, subresource, namespace, name string, change func(store.Object) (store.Object, error)) error
	Delete(ctx context.Context, resource string, object store.Object, opts *metav1.DeleteOptions) error
	// Len is how many objects it writes.
	Len() int
	// Commit stores all, and returns each object as it is stored. ErrConflict and
	// ErrExists of host/store say that another writer came between.
	Commit(ctx context.Context) ([]store.Object, error)
	Rollback()
}

// Access tells what the guest's ServiceAccount may do.
type Access interface {
	// May is nil, or an error that says what is forbidden to whom. The resource is
	// the store's name for it.
	May(ctx context.Context, verb, resource, subresource, namespace, name string) error
}

// Recorder tells users what happened to a parent.
type Recorder interface {
	Event(about store.Object, kind, reason, message string)
}

// Type is what the host knows of a kind.
type Type struct {
	// Resource is the store's name for it.
	Resource string
	New      func() store.Object
	// Cluster: its objects are in no namespace.
	Cluster bool
}

// Config is what a Driver needs.
type Config struct {
	Guest   Guest
	Objects Objects
	// Writer writes as the guest's ServiceAccount, and Access tells what that may.
	Writer   Writer
	Access   Access
	Recorder Recorder
	// Note tells whoever runs the policy what keeps it from its work.
	Note func(level slog.Level, message string)
	// Broke is told of an answer that breaks a rule, which leaves it as good as any
	// other.
	Broke func(rule, message string)
	// Record keeps what the guest was asked about a parent, and its answer or how it
	// failed; nil keeps nothing. The bytes are good during the call.
	Record func(parent store.Object, at time.Time, question, answer []byte, err error)
	// Types finds a kind that is served.
	Types func(apiVersion, kind string) (Type, bool)
	// Usage is what a pod uses; nil where nobody knows.
	Usage func(*v1.Pod) *Usage
	// Metrics are those of adapters; nil where nobody asks them.
	Metrics Metrics
	Now     func() time.Time
	Log     *slog.Logger
	// Seed makes a number up for guests that want one; rand.Uint64 by default.
	Seed func() uint64
	// Workers is how many parents are written for at a time; 4 by default.
	Workers int
	// Sample is how many answers there are to one that is checked; 1000 by default.
	Sample uint64
	Trial  Trial
}

// Driver runs one guest.
//
// It is large because watching, asking, owning, writing and waiting are steps
// of one guest's reconciliation, each in a file.
type Driver struct {
	Config
	parent   kindWatch
	children []kindWatch
	related  []kindWatch
	queue    workqueue.TypedRateLimitingInterface[types.NamespacedName]
	pace     pace
	facts    *facts
	refusals refusals
	ghosts   ghosts
	memories memories
	outcomes outcomes
	checked  checked
	// measuring is for guests that are told of adapters' metrics.
	measuring measuring
}

// kindWatch is a kind with all that is needed to read it.
type kindWatch struct {
	kind Kind
	Type
	fields *fields
	// pods: the guest is given the fact "pod".
	pods bool
	// selectors finds the parents that select an object of the kind; nil where
	// parents do not.
	selectors *selectors
	// child: answers may name it as a child of the parent.
	child bool
}

// selects tells whether parents find objects of the kind by a selector.
func (w *kindWatch) selects() bool {
	if w.child {
		return w.kind.By == "" || w.kind.By == abi.ByOwner
	}
	return w.kind.By == "" || w.kind.By == abi.BySelector
}

// selectorPath is where a parent keeps the selector of the kind.
func (w *kindWatch) selectorPath() string {
	if w.kind.Path != "" {
		return w.kind.Path
	}
	return "spec.selector"
}

// selector is a parent's for the kind.
func (w *kindWatch) selector(parent store.Object) labels.Selector {
	return selectorAt(at(parent, w.selectorPath()), !w.child)
}

// New checks what the guest declares against what is served.
func New(cfg Config) (*Driver, error) {
	d := &Driver{Config: cfg, facts: newFacts(cfg.Objects, cfg.Usage, cfg.Now)}
	if d.Workers == 0 {
		d.Workers = 4
	}
	if d.Seed == nil {
		d.Seed = rand.Uint64
	}
	if d.Sample == 0 {
		d.Sample = sampled
	}
	var err error
	if d.parent, err = d.resolve(cfg.Guest.Parent(), false); err != nil {
		return nil, err
	}
	if d.children, err = d.resolveAll(cfg.Guest.Children(), true); err != nil {
		return nil, err
	}
	d.related, err = d.resolveAll(cfg.Guest.Related(), false)
	return d, err
}

func (d *Driver) resolveAll(kinds []Kind, child bool) (all []kindWatch, err error) {
	for _, k := range kinds {
		w, err := d.resolve(k, child)
		if err != nil {
			return nil, err
		}
		if w.selects() {
			w.selectors = newSelectors()
		}
		all = append(all, w)
	}
	return all, nil
}

func (d *Driver) resolve(k Kind, child bool) (kindWatch, error) {
	t, ok := d.Types(k.APIVersion, k.Kind)
	if !ok {
		return kindWatch{}, fmt.Errorf("controller %s asks for %s %s, which this host does not serve", d.Guest.Name(), k.APIVersion, k.Kind)
	}
	f, err := compile(reflect.TypeOf(t.New()), k.Fields)
	if err != nil {
		return kindWatch{}, fmt.Errorf("controller %s: %w", d.Guest.Name(), err)
	}
	if p, ok := pathOf(reflect.TypeOf(t.New()), k.Path); k.By == abi.ByReference && (!ok || p.leaf != referenceType) {
		return kindWatch{}, fmt.Errorf("controller %s finds %s by the reference at %q, and %[2]s has none there", d.Guest.Name(), k.Kind, k.Path)
	}
	if k.By == abi.ByClaim && (t.Resource != "pods" || d.Guest.Parent().Kind != "PersistentVolumeClaim") {
		return kindWatch{}, fmt.Errorf("controller %s finds %s by %q: that finds Pods of a PersistentVolumeClaim", d.Guest.Name(), k.Kind, k.By)
	}
	return kindWatch{kind: k, Type: t, fields: f, child: child, pods: slices.Contains(k.Facts, abi.FactPod)}, nil
}

// Run works until ctx ends.
func (d *Driver) Run(ctx context.Context) error {
	limiter := workqueue.NewTypedItemExponentialFailureRateLimiter[types.NamespacedName](5*time.Millisecond, time.Minute)
	d.queue = workqueue.NewTypedRateLimitingQueue[types.NamespacedName](limiter)
	// Children and what is related are followed from before the first parent is
	// looked at: what becomes of them meanwhile would be lost.
	since, err := d.revisions(slices.Concat(d.children, d.related))
	if err != nil {
		return err
	}
	if err := d.findGone(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return d.follow(ctx, &d.parent, d.parentChanged, 0) })
	for i := range d.children {
		w := &d.children[i]
		group.Go(func() error { return d.follow(ctx, w, d.waker(w), since[i]) })
	}
	for i := range d.related {
		w := &d.related[i]
		group.Go(func() error { return d.follow(ctx, w, d.waker(w), since[len(d.children)+i]) })
	}
	for range d.Workers {
		group.Go(func() error { return d.work(ctx) })
	}
	group.Go(func() error {
		<-ctx.Done()
		d.queue.ShutDown()
		return nil
	})
	err = group.Wait()
	d.measuring.running.Wait()
	return err
}

// revisions are where the kinds stand.
func (d *Driver) revisions(kinds []kindWatch) ([]int64, error) {
	none := store.ListOptions{Match: func(store.Object) bool { return false }}
	since := make([]int64, len(kinds))
	for i := range kinds {
		list, err := d.Objects.List(kinds[i].Resource, "", none)
		if err != nil {
			return nil, err
		}
		since[i] = list.Revision
	}
	return since, nil
}

// follow reports every change of a kind since a revision; if that is 0, what is
// there too.
func (d *Driver) follow(ctx context.Context, w *kindWatch, changed func(store.Object), since int64) error {
	for {
		if since == 0 {
			list, err := d.Objects.List(w.Resource, "", store.ListOptions{})
			if err != nil {
				return stopped(ctx, err)
			}
			for _, o := range list.Items {
				changed(o)
			}
			since = list.Revision
		}
		watch, err := d.Objects.Watch(w.Resource, "", since)
		for err == nil {
			var events []store.Event
			events, err = watch.Next(ctx)
			for i := range events {
				e := &events[i]
				if e.Type == store.Modified && w.same(e.Prev, e.Object) && !(w == &d.parent && d.meddled(e.Object)) {
					continue // of nothing that the guest is told
				}
				changed(e.Object)
				if e.Prev != nil {
					w.moved(e.Prev, e.Object, changed)
				}
			}
		}
		if !errors.Is(err, store.ErrCompacted) {
			return stopped(ctx, err)
		}
		// After a gap all parents are looked at again: a child that is gone names none,
		// and a parent that is gone is in no list.
		since = 0
		d.wakeAll("")
		if err := d.findGone(); err != nil {
			return stopped(ctx, err)
		}
	}
}

// moved reports the state before too where another parent was concerned.
func (w *kindWatch) moved(before, after store.Object, changed func(store.Object)) {
	was, is := metav1.GetControllerOfNoCopy(before), metav1.GetControllerOfNoCopy(after)
	if w.kind.By == abi.ByReference && refersElsewhere(before, after, w.kind.Path) || was != nil && !sameOwner(was, is) || !maps.Equal(before.GetLabels(), after.GetLabels()) {
		changed(before)
	}
}

// stopped turns the end that was asked for into success.
func stopped(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// same tells whether the guest is told the same of two states of an object.
// Facts follow from the generation, or are of objects that are followed too.
func (w *kindWatch) same(a, b store.Object) bool {
	return a != nil && a.GetGeneration() == b.GetGeneration() && maps.Equal(a.GetLabels(), b.GetLabels()) &&
		maps.Equal(a.GetAnnotations(), b.GetAnnotations()) && slices.Equal(a.GetFinalizers(), b.GetFinalizers()) &&
		a.GetDeletionTimestamp().Equal(b.GetDeletionTimestamp()) &&
		equality.Semantic.DeepEqual(a.GetOwnerReferences(), b.GetOwnerReferences()) && w.fields.same(a, b) && (!w.pods || samePod(a, b)) && w.sameStatus(a, b)
}

// sameStatus compares the facts that follow from a status.
func (w *kindWatch) sameStatus(a, b store.Object) bool {
	for _, name := range w.kind.Facts {
		of := ofStatus[name]
		if of == nil {
			continue
		}
		was, err := of(a)
		is, err2 := of(b)
		if err != nil || err2 != nil || !bytes.Equal(was, is) {
			return false
		}
	}
	return true
}

// meddled tells whether a parent's status is another one than the guest gave.
func (d *Driver) meddled(o store.Object) bool {
	given := d.outcomes.status(nameOf(o))
	if len(given) == 0 {
		return false
	}
	wanted, err := withStatus(o, given)
	return err == nil && wanted != o
}

func nameOf(o store.Object) types.NamespacedName {
	return types.NamespacedName{Namespace: o.GetNamespace(), Name: o.GetName()}
}

func (d *Driver) parentChanged(o store.Object) {
	have, there := d.Objects.Get(d.parent.key(o.GetNamespace(), o.GetName()))
	if !there || have.GetUID() != o.GetUID() {
		d.gone(o)
	}
	for _, list := range [][]kindWatch{d.children, d.related} {
		for i := range list {
			w := &list[i]
			switch {
			case w.selectors == nil:
			case there:
				w.selectors.put(nameOf(o), w.selector(o))
			default:
				w.selectors.put(nameOf(o), nil)
			}
		}
	}
	d.pace.urge(nameOf(o))
	d.queue.Add(nameOf(o))
}

func (w *kindWatch) key(namespace, name string) store.Key {
	return store.Key{Resource: w.Resource, Namespace: namespace, Name: name}
}

// soon asks about a parent at once, or a moment later if it was asked about
// just now.
func (d *Driver) soon(name types.NamespacedName) {
	d.queue.AddAfter(name, d.pace.settle(name, d.Now()))
}

// waker is what a change of an object of the kind does.
func (d *Driver) waker(w *kindWatch) func(store.Object) {
	switch w.kind.By {
	case abi.ByTarget:
		return func(store.Object) {}
	case abi.ByName:
		return func(o store.Object) { d.wakeByName(w, o) }
	case abi.ByChildren:
		return d.wakeByChildren
	case abi.ByOrdinal:
		return func(o store.Object) { d.wakeByOrdinal(w, o) }
	case abi.ByReference:
		return func(o store.Object) { d.wakeByReference(w, o) }
	case abi.ByClaim:
		return d.wakeByClaim
	case abi.ByNamespace:
		return func(o store.Object) { d.wakeAll(o.GetNamespace()) }
	case abi.ByCluster:
		return func(store.Object) { d.wakeAll("") }
	}
	if w.child {
		return func(o store.Object) {
			if owner := metav1.GetControllerOfNoCopy(o); owner != nil {
				d.wakeOwner(o.GetNamespace(), owner)
				return
			}
			w.selectors.matching(o, d.soon)
		}
	}
	return func(o store.Object) { w.selectors.matching(o, d.soon) }
}

func (d *Driver) wakeOwner(namespace string, owner *metav1.OwnerReference) {
	if refersTo(owner, &d.parent.kind) {
		d.noteOwner(namespace, owner)
		d.soon(types.NamespacedName{Namespace: namespace, Name: owner.Name})
	}
}

// wakeByChildren wakes the parent of the child that controls the object.
func (d *Driver) wakeByChildren(o store.Object) {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil {
		return
	}
	for i := range d.children {
		w := &d.children[i]
		if !refersTo(owner, &w.kind) {
			continue
		}
		child, ok := d.Objects.Get(w.key(o.GetNamespace(), owner.Name))
		if !ok {
			continue
		}
		if parent := metav1.GetControllerOfNoCopy(child); parent != nil {
			d.wakeOwner(o.GetNamespace(), parent)
		}
	}
}

// wakeByName wakes the parents that name the object.
func (d *Driver) wakeByName(w *kindWatch, o store.Object) {
	if w.kind.Path == "" {
		d.soon(nameOf(o))
		return
	}
	namespace := o.GetNamespace()
	if d.parent.Cluster {
		namespace = ""
	}
	d.each(namespace, func(parent store.Object) {
		if w.names(parent, o) {
			d.soon(nameOf(parent))
		}
	})
}

// names tells whether a parent's field names the object.
func (w *kindWatch) names(parent, o store.Object) bool {
	if ref, ok := referenceAt(parent, w.kind.Path); ok {
		return ref != nil && ref.Name == o.GetName() && ref.Namespace == o.GetNamespace()
	}
	return textAt(parent, w.kind.Path) == o.GetName()
}

// wakeByReference wakes the parent that the object names, or all for one that
// names none.
func (d *Driver) wakeByReference(w *kindWatch, o store.Object) {
	if ref, _ := referenceAt(o, w.kind.Path); ref != nil {
		d.soon(types.NamespacedName{Namespace: ref.Namespace, Name: ref.Name})
		return
	}
	d.wakeAll("")
}

// refersElsewhere tells whether an object named a parent that it no longer names.
func refersElsewhere(before, after store.Object, path string) bool {
	was, _ := referenceAt(before, path)
	is, _ := referenceAt(after, path)
	return was != nil && (is == nil || is.Namespace != was.Namespace || is.Name != was.Name)
}

var referenceType = reflect.TypeFor[*v1.ObjectReference]()

// referenceAt is the reference that a field holds, nil where it holds none; ok
// tells whether it is of that kind.
func referenceAt(o store.Object, path string) (ref *v1.ObjectReference, ok bool) {
	p, found := pathOf(reflect.TypeOf(o), path)
	if !found || p.leaf != referenceType {
		return nil, false
	}
	if v, found := p.walk(reflect.ValueOf(o)); found {
		ref, _ = v.Interface().(*v1.ObjectReference)
	}
	return ref, true
}

func textAt(o store.Object, path string) string {
	v := at(o, path)
	for v.IsValid() && v.Kind() == reflect.Pointer {
		v = v.Elem()
	}
	if !v.IsValid() || v.Kind() != reflect.String {
		return ""
	}
	return v.String()
}

func (d *Driver) wakeAll(namespace string) {
	d.each(namespace, func(parent store.Object) { d.soon(nameOf(parent)) })
}

func (d *Driver) each(namespace string, fn func(parent store.Object)) {
	parents, err := d.Objects.List(d.parent.Resource, namespace, store.ListOptions{})
	if err != nil {
		return
	}
	for _, p := range parents.Items {
		fn(p)
	}
}

func (d *Driver) work(ctx context.Context) error {
	for {
		name, shutdown := d.queue.Get()
		if shutdown {
			return nil
		}
		if wait := d.pace.wait(name, d.Now()); wait > 0 {
			d.queue.AddAfter(name, wait)
			d.queue.Done(name)
			continue
		}
		if d.measured(ctx, name) {
			d.ask(ctx, name)
		}
		d.queue.Done(name)
	}
}
