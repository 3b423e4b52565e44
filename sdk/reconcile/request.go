package reconcile

import (
	"unsafe"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// Request is a controller's input.
type Request struct {
	Now               int64
	Parent            Object
	Children, Related []*Object
	// Refused says, in words, what the host refused of the last answer about this
	// parent; it is empty if that was stored.
	Refused string
	// Seed is a number made up for this question, where the controller asked for it
	// by sdk.Seed; the same question has the same.
	Seed    uint64
	Symbols *facts.Symbols
}

// ChildrenOf are the children of one kind.
func (r *Request) ChildrenOf(kind string) []*Object { return ofKind(r.Children, kind) }

// RelatedOf are the related objects of one kind.
func (r *Request) RelatedOf(kind string) []*Object { return ofKind(r.Related, kind) }

func ofKind(list []*Object, kind string) (found []*Object) {
	for _, o := range list {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// Reconciler is a controller. This face is experimental: it is not yet part
// of the ABI's first version.
type Reconciler interface {
	Reconcile(r *Request) (Result, error)
}

// resize keeps the elements and what they hold, to be used again. Each is an
// object of its own: from a pointer into a large one a collector would have to
// look for its beginning.
func resize(list []*Object, n int) []*Object {
	for len(list) < n {
		if len(list) < cap(list) && list[:len(list)+1][len(list)] != nil {
			list = list[:len(list)+1]
			continue
		}
		list = append(list, new(Object))
	}
	return list[:n]
}

// Reader reads requests in the memory of those before.
type Reader struct {
	parent            Object
	children, related []*Object
	field             fb.Field
	podFacts          fb.PodFacts
	texts             pieces
}

// Read reads a request; not ok has no parent.
func (in *Reader) Read(input *fb.ReconcileInput, d *facts.Decoder, syms *facts.Symbols) (r *Request, ok bool) {
	r = &Request{Now: input.Now(), Refused: string(input.Refused()), Seed: input.Seed(), Symbols: syms}
	var o fb.ControlObject
	if input.Parent(&o) == nil {
		return nil, false
	}
	in.object(&in.parent, &o, d, syms)
	r.Parent = in.parent
	in.children = resize(in.children, input.ChildrenLength())
	for i := range in.children {
		input.Children(&o, i)
		in.object(in.children[i], &o, d, syms)
	}
	in.related = resize(in.related, input.RelatedLength())
	for i := range in.related {
		input.Related(&o, i)
		in.object(in.related[i], &o, d, syms)
	}
	r.Children, r.Related = in.children, in.related
	return r, true
}

// object reads an object into the place of one that an earlier call gave,
// so that thousands of them leave little garbage. Texts are copied (pieces): they
// are not interned, since no symbol should outlive the call for what changes as
// often as a status does.
func (in *Reader) object(to *Object, o *fb.ControlObject, d *facts.Decoder, syms *facts.Symbols) {
	to.APIVersion, to.Kind, to.syms = syms.Text(o.ApiVersion()), syms.Text(o.Kind()), syms
	to.Namespace, to.Name, to.UID, to.ResourceVersion = in.texts.of(o.Namespace()), in.texts.of(o.Name()), in.texts.of(o.Uid()), in.texts.of(o.ResourceVersion())
	to.Generation, to.Created, to.Deleted = o.Generation(), o.Created(), o.Deleted()
	to.Labels = facts.MakeLabels(syms, to.Labels.Pairs[:0])
	if n := o.LabelsLength(); n > 0 {
		to.Labels.Pairs = d.Pairs(to.Labels.Pairs, n, o.Labels)
	}
	to.Annotations = facts.MakeLabels(syms, to.Annotations.Pairs[:0])
	if n := o.AnnotationsLength(); n > 0 {
		to.Annotations.Pairs = d.Pairs(to.Annotations.Pairs, n, o.Annotations)
	}
	to.Owners = to.Owners[:0]
	if n := o.OwnersLength(); n > 0 {
		to.Owners = d.Owners(to.Owners, n, o.Owners)
	}
	to.Finalizers = to.Finalizers[:0]
	for i, n := 0, o.FinalizersLength(); i < n; i++ {
		to.Finalizers = append(to.Finalizers, syms.Text(o.Finalizers(i)))
	}
	to.fields = to.fields[:0]
	for i, n := 0, o.FieldsLength(); i < n; i++ {
		o.Fields(&in.field, i)
		to.fields = append(to.fields, controlField{syms.Text(in.field.Path()), in.texts.of(in.field.Json())})
	}
	if to.HasPod = o.Pod(&in.podFacts) != nil; to.HasPod {
		to.Pod.read(&in.podFacts, syms, &in.texts)
	}
}

func (to *PodFacts) read(p *fb.PodFacts, syms *facts.Symbols, t *pieces) {
	to.Phase, to.Ready, to.ReadySince = syms.Text(p.Phase()), p.Ready(), p.ReadySince()
	to.NodeName, to.Hostname, to.Subdomain = t.of(p.NodeName()), t.of(p.Hostname()), t.of(p.Subdomain())
	to.Restarts = int64(p.Restarts())
	to.IPs = to.IPs[:0]
	for i, n := 0, p.IpsLength(); i < n; i++ {
		to.IPs = append(to.IPs, t.of(p.Ips(i)))
	}
}

// pieces holds copies of an input's texts in pieces of some size. A collector
// looks from each text for the beginning of what holds it, block by block: it
// would go through a whole input for each of thousands of texts, and one piece a
// text would be as many more to allocate.
type pieces struct{ piece []byte }

const pieceSize = 1024

func (t *pieces) of(b []byte) string {
	if len(b) == 0 {
		return ""
	}
	if len(b) > pieceSize/4 {
		return string(b)
	}
	if cap(t.piece)-len(t.piece) < len(b) {
		t.piece = make([]byte, 0, pieceSize)
	}
	at := len(t.piece)
	t.piece = append(t.piece, b...)
	return unsafe.String(&t.piece[at], len(b))
}
