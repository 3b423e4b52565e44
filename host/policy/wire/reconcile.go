package wire

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// ControlObject is an object for a controller: its metadata, and the fields
// that its kind asks for, in the order of Kind.Fields and then Kind.Facts, empty
// where there is none.
type ControlObject struct {
	Kind   abi.ObjectKind
	Object metav1.Object
	Fields []json.RawMessage
	// Pod is nil unless the kind asks for the fact.
	Pod *PodFacts
}

// PodFacts are what matters of a pod to those that count pods.
type PodFacts struct {
	Phase      string
	Ready      bool
	ReadySince metav1.Time
	NodeName   string
	Restarts   int32
	IPs        []string
	Hostname   string
	Subdomain  string
}

func (e *Encoder) podFacts(p *PodFacts) offset {
	if p == nil {
		return 0
	}
	phase, node, ips := e.shared(p.Phase), e.shared(p.NodeName), e.strs(p.IPs)
	hostname, subdomain := e.str(p.Hostname), e.shared(p.Subdomain)
	fb.PodFactsStart(e.b)
	fb.PodFactsAddPhase(e.b, phase)
	fb.PodFactsAddReady(e.b, p.Ready)
	fb.PodFactsAddReadySince(e.b, nanos(p.ReadySince))
	fb.PodFactsAddNodeName(e.b, node)
	fb.PodFactsAddRestarts(e.b, p.Restarts)
	fb.PodFactsAddIps(e.b, ips)
	fb.PodFactsAddHostname(e.b, hostname)
	fb.PodFactsAddSubdomain(e.b, subdomain)
	return fb.PodFactsEnd(e.b)
}

// ReconcileInput is what a controller is asked about.
type ReconcileInput struct {
	Now               int64
	Parent            ControlObject
	Children, Related []ControlObject
	// Refused says what the host refused of the answer before.
	Refused string
	// Seed is given where the manifest asks for one.
	Seed uint64
	// Asked is told how this is put to the guest, and what it answered or how it
	// failed; nil is nobody. The bytes are good during the call.
	Asked func(question, answer []byte, err error)
}

// Reconcile writes the input of berth_reconcile. What many children have in common is
// written once: 65,000 replicas fit a question.
func (e *Encoder) Reconcile(in *ReconcileInput) []byte {
	e.reset()
	e.common = common{}
	var refused offset
	if in.Refused != "" {
		refused = e.b.CreateString(in.Refused)
	}
	p, c, r := e.controlObject(&in.Parent), e.controlObjects(in.Children), e.controlObjects(in.Related)
	fb.ReconcileInputStart(e.b)
	fb.ReconcileInputAddNow(e.b, in.Now)
	fb.ReconcileInputAddParent(e.b, p)
	fb.ReconcileInputAddChildren(e.b, c)
	fb.ReconcileInputAddRelated(e.b, r)
	if refused != 0 {
		fb.ReconcileInputAddRefused(e.b, refused)
	}
	fb.ReconcileInputAddSeed(e.b, in.Seed)
	return e.finish(fb.ReconcileInputEnd(e.b))
}

func (e *Encoder) controlObjects(list []ControlObject) offset {
	mark := len(e.offs)
	for i := range list {
		e.push(e.controlObject(&list[i]))
	}
	return e.vector(mark)
}

// common is what the object written last had, and where that lies.
type common struct {
	labels, annotations     map[string]string
	owners                  []metav1.OwnerReference
	finalizers              []string
	labelsAt, annotationsAt offset
	ownersAt, finalizersAt  offset
}

// shared is str for texts of which many objects have the same.
func (e *Encoder) shared(s string) offset {
	if s == "" {
		return 0
	}
	return e.b.CreateSharedString(s)
}

// follow writes what of the object differs from the one before.
func (c *common) follow(e *Encoder, m metav1.Object) {
	if l := m.GetLabels(); c.labelsAt == 0 || !maps.Equal(l, c.labels) {
		c.labels, c.labelsAt = l, e.kvs(l)
	}
	if a := m.GetAnnotations(); c.annotationsAt == 0 || !maps.Equal(a, c.annotations) {
		c.annotations, c.annotationsAt = a, e.kvs(a)
	}
	if o := m.GetOwnerReferences(); c.ownersAt == 0 || !slices.EqualFunc(o, c.owners, sameOwner) {
		c.owners, c.ownersAt = o, e.owners(o)
	}
	if f := m.GetFinalizers(); c.finalizersAt == 0 || !slices.Equal(f, c.finalizers) {
		c.finalizers, c.finalizersAt = f, e.strs(f)
	}
}

func sameOwner(a, b metav1.OwnerReference) bool {
	controls := func(r metav1.OwnerReference) bool { return r.Controller != nil && *r.Controller }
	return a.UID == b.UID && a.Name == b.Name && a.Kind == b.Kind && a.APIVersion == b.APIVersion && controls(a) == controls(b)
}

func (e *Encoder) controlObject(o *ControlObject) offset {
	m := o.Object
	version, kind := e.shared(o.Kind.APIVersion), e.shared(o.Kind.Kind)
	namespace, name, uid := e.shared(m.GetNamespace()), e.str(m.GetName()), e.str(string(m.GetUID()))
	e.common.follow(e, m)
	labels, annotations, owners, finalizers := e.common.labelsAt, e.common.annotationsAt, e.common.ownersAt, e.common.finalizersAt
	fields, revision := e.fields(o), e.b.CreateString(m.GetResourceVersion())
	pod := e.podFacts(o.Pod)
	fb.ControlObjectStart(e.b)
	fb.ControlObjectAddApiVersion(e.b, version)
	fb.ControlObjectAddKind(e.b, kind)
	fb.ControlObjectAddNamespace(e.b, namespace)
	fb.ControlObjectAddName(e.b, name)
	fb.ControlObjectAddUid(e.b, uid)
	fb.ControlObjectAddGeneration(e.b, m.GetGeneration())
	fb.ControlObjectAddCreated(e.b, nanos(m.GetCreationTimestamp()))
	if t := m.GetDeletionTimestamp(); t != nil {
		fb.ControlObjectAddDeleted(e.b, nanos(*t))
	}
	fb.ControlObjectAddLabels(e.b, labels)
	fb.ControlObjectAddAnnotations(e.b, annotations)
	fb.ControlObjectAddOwners(e.b, owners)
	fb.ControlObjectAddFields(e.b, fields)
	fb.ControlObjectAddFinalizers(e.b, finalizers)
	fb.ControlObjectAddResourceVersion(e.b, revision)
	if pod != 0 {
		fb.ControlObjectAddPod(e.b, pod)
	}
	return fb.ControlObjectEnd(e.b)
}

func (e *Encoder) fields(o *ControlObject) offset {
	mark := len(e.offs)
	for i, value := range o.Fields {
		if len(value) == 0 {
			continue
		}
		path, text := e.shared(fieldName(&o.Kind, i)), e.b.CreateByteString(value)
		fb.FieldStart(e.b)
		fb.FieldAddPath(e.b, path)
		fb.FieldAddJson(e.b, text)
		e.push(fb.FieldEnd(e.b))
	}
	return e.vector(mark)
}

// fieldName names a value: the fields stand first, and then the facts.
func fieldName(k *abi.ObjectKind, i int) string {
	if i < len(k.Fields) {
		return k.Fields[i]
	}
	return k.Facts[i-len(k.Fields)]
}

// TooLargeError says that a question has more to tell than one may have. That is no
// failure of the policy: about others it is asked as before.
type TooLargeError struct{ Objects, Bytes, Most int }

func (e *TooLargeError) Error() string {
	return fmt.Sprintf("it has %d objects to do with, which take %d bytes; a policy is told %d bytes at most", e.Objects-1, e.Bytes, e.Most)
}
