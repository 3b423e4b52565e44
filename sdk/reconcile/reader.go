package reconcile

import (
	"unsafe"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
)

// Reader reads requests in the memory of those before.
type Reader struct {
	parent            Object
	children, related known
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
	another := in.parent.UID != text(o.Uid())
	in.object(&in.parent, &o, d, syms)
	r.Parent = in.parent
	in.children.begin(another)
	for i, n := 0, input.ChildrenLength(); i < n; i++ {
		input.Children(&o, i)
		in.one(&in.children, &o, d, syms)
	}
	in.related.begin(another)
	for i, n := 0, input.RelatedLength(); i < n; i++ {
		input.Related(&o, i)
		in.one(&in.related, &o, d, syms)
	}
	r.Children, r.Related = in.children.end(), in.related.end()
	return r, true
}

// one reads an object, of which only the fields can differ if it is known: they hold
// facts, too, which other objects may be the reason for.
func (in *Reader) one(k *known, o *fb.ControlObject, d *facts.Decoder, syms *facts.Symbols) {
	to, before := k.find(text(o.Uid()))
	if before && to.ResourceVersion != "" && to.ResourceVersion == text(o.ResourceVersion()) &&
		to.Kind == text(o.Kind()) && to.APIVersion == text(o.ApiVersion()) && to.HasPod == (o.Pod(&in.podFacts) != nil) {
		in.fields(to, o, syms)
	} else {
		in.object(to, o, d, syms)
	}
	k.next = append(k.next, to)
}

// object reads an object into the place of one that an earlier call gave, so that
// thousands of them leave little garbage. Texts are copied (pieces): they are not
// interned, since no symbol should outlive the call for what changes as often as a
// status does.
func (in *Reader) object(to *Object, o *fb.ControlObject, d *facts.Decoder, syms *facts.Symbols) {
	t := &in.texts
	to.APIVersion, to.Kind, to.syms = syms.Text(o.ApiVersion()), syms.Text(o.Kind()), syms
	to.Namespace, to.Name, to.UID = t.keep(to.Namespace, o.Namespace()), t.keep(to.Name, o.Name()), t.keep(to.UID, o.Uid())
	to.ResourceVersion = t.keep(to.ResourceVersion, o.ResourceVersion())
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
	in.fields(to, o, syms)
	if to.HasPod = o.Pod(&in.podFacts) != nil; to.HasPod {
		to.Pod.read(&in.podFacts, syms, t)
	}
}

func (in *Reader) fields(to *Object, o *fb.ControlObject, syms *facts.Symbols) {
	had := to.fields
	to.fields = had[:0]
	for i, n := 0, o.FieldsLength(); i < n; i++ {
		o.Fields(&in.field, i)
		f := controlField{}
		if i < len(had) {
			f = had[i]
		}
		if path := in.field.Path(); f.path != text(path) {
			f.path = syms.Text(path)
		}
		f.json = in.texts.keep(f.json, in.field.Json())
		to.fields = append(to.fields, f)
	}
}

func (to *PodFacts) read(p *fb.PodFacts, syms *facts.Symbols, t *pieces) {
	to.Phase, to.Ready, to.ReadySince = syms.Text(p.Phase()), p.Ready(), p.ReadySince()
	to.NodeName, to.Hostname, to.Subdomain = t.keep(to.NodeName, p.NodeName()), t.keep(to.Hostname, p.Hostname()), t.keep(to.Subdomain, p.Subdomain())
	to.Restarts = int64(p.Restarts())
	had := to.IPs
	to.IPs = had[:0]
	for i, n := 0, p.IpsLength(); i < n; i++ {
		ip := ""
		if i < len(had) {
			ip = had[i]
		}
		to.IPs = append(to.IPs, t.keep(ip, p.Ips(i)))
	}
}

// pieces holds copies of an input's texts in pieces of some size. A collector
// looks from each text for the beginning of what holds it, block by block: it
// would go through a whole input for each of thousands of texts, and one piece a
// text would be as many more to allocate.
type pieces struct{ piece []byte }

// keep is b as a string: the one that was there, if it is the same.
func (t *pieces) keep(was string, b []byte) string {
	if was == text(b) {
		return was
	}
	return t.of(b)
}

// text is b as a string for as long as b stays what it is.
func text(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }

const pieceSize = 128

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
