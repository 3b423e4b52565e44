package sdk

import (
	"time"
	"unsafe"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// ControlObject is an object as a controller sees it: its metadata, and the
// fields that the policy's manifest asks for. Times are nanoseconds since
// 1970, 0 where there is none. It and its texts are the call's: a controller
// keeps none of them for the next.
type ControlObject struct {
	APIVersion, Kind, Namespace, Name, UID string
	Generation, Created, Deleted           int64
	Labels, Annotations                    Labels
	Owners                                 []Owner
	Finalizers                             []string
	ResourceVersion                        string
	// Pod is set, and HasPod true, if the kind asks for the fact abi.FactPod.
	Pod    PodFacts
	HasPod bool
	syms   *Symbols
	fields []controlField
}

// PodFacts are what matters of a pod to those that count pods.
type PodFacts struct {
	Phase string
	Ready bool
	// ReadySince is when Ready last changed.
	ReadySince int64
	NodeName   string
	// Restarts is the most that a container was restarted.
	Restarts            int64
	IPs                 []string
	Hostname, Subdomain string
}

type controlField struct{ path, json string }

// JSON is a field as it is, "" if the object has none there.
func (o *ControlObject) JSON(path string) string {
	for i := range o.fields {
		if o.fields[i].path == path {
			return o.fields[i].json
		}
	}
	return ""
}

// Field is a field, null if the object has none there.
func (o *ControlObject) Field(path string) Config { return Config{text: o.JSON(path), compact: true} }

// Controller is the UID of the owner that controls the object, "" if none does.
func (o *ControlObject) Controller() string {
	for _, owner := range o.Owners {
		if owner.Controller {
			return o.syms.String(owner.UID)
		}
	}
	return ""
}

// ReconcileRequest is a controller's input.
type ReconcileRequest struct {
	Now               int64
	Parent            ControlObject
	Children, Related []*ControlObject
	// Refused says, in words, what the host refused of the last answer about this
	// parent; it is empty if that was stored.
	Refused string
	Symbols *Symbols
}

// ChildrenOf are the children of one kind.
func (r *ReconcileRequest) ChildrenOf(kind string) []*ControlObject { return ofKind(r.Children, kind) }

// RelatedOf are the related objects of one kind.
func (r *ReconcileRequest) RelatedOf(kind string) []*ControlObject { return ofKind(r.Related, kind) }

func ofKind(list []*ControlObject, kind string) (found []*ControlObject) {
	for _, o := range list {
		if o.Kind == kind {
			found = append(found, o)
		}
	}
	return found
}

// ReconcileResult is what a controller wants done. The host stores all of it
// together or nothing; it sets owner references and namespaces, and refuses
// kinds and verbs that are not declared.
type ReconcileResult struct {
	// Status is JSON that replaces the parent's status; none leaves it.
	Status string
	// Create are objects wanted that do not exist.
	Create []Creation
	// Patch, Delete, Adopt and Release name objects by UID, in the order in which
	// they are to be handled.
	Patch          []Patch
	Delete         []Deletion
	Adopt, Release []string
	Events         []Event
	// RequeueAfter is when to ask again; 0 waits for a change.
	RequeueAfter time.Duration
	// Why says in sentences what the parent waits for.
	Why []string
	// Memory is JSON that the next question gives as the parent's fact
	// abi.FactMemory; none leaves what there is. A restart of the host forgets it.
	Memory string
}

// Creation is an object to create Count times.
type Creation struct {
	// From is a field of the parent with a template, such as spec.template, that
	// the host begins with. Object is a JSON merge patch of it then, else the
	// object itself.
	From, Object string
	Count        int64
	// Each are merge patches of that, one an object, in place of Count.
	Each []string
	// Unowned objects do not belong to the parent.
	Unowned bool
	// Quiet: the host writes no event SuccessfulCreate. It does so only where it
	// makes up the name.
	Quiet bool
	// Success is the message of the event SuccessfulCreate, and Failure what
	// FailedCreate says before it says what was refused; the host has words of its
	// own where they are empty, and is silent of the success of a fixed name.
	Success, Failure string
}

// Patch is a JSON merge patch of the object with that UID. Subresource is empty,
// "status" or "scale".
type Patch struct{ UID, Patch, Subresource string }

// Deletion takes the object with that UID away.
type Deletion struct {
	UID string
	// Grace is how many seconds it gets, if HasGrace says so.
	Grace    int64
	HasGrace bool
	// Propagation is Background where it is empty, Foreground or Orphan.
	Propagation string
	// Quiet: the host writes no event SuccessfulDelete.
	Quiet bool
	// Success is that event's message; the host has one where it is empty.
	Success string
}

// Event is one event on the parent, or on the object with the UID in About.
type Event struct{ Type, Reason, Message, About string }

// Reconciler is a controller. This face is experimental: it is not yet part
// of the ABI's first version.
type Reconciler interface {
	Reconcile(r *ReconcileRequest) (ReconcileResult, error)
}

// Controller registers a controller of a kind; call it from init.
func Controller(name string, c Reconciler, parent ObjectKind, children []ObjectKind, opts ...Option) {
	open := func(s *Setup) (any, error) {
		own := fresh(c)
		return own, configure(own, s.Config)
	}
	p := Policy{
		Name: name, Kind: KindController, Parent: parent, Children: children, Open: open,
		Reads: abi.Owners | abi.Time, Scope: abi.ScopeSet,
	}
	for _, o := range opts {
		o(&p)
	}
	Register(p)
}

// Reconcile answers for one parent, in JSON.
func (in *Instance) Reconcile(b []byte) ([]byte, error) {
	if in.control == nil {
		return nil, errKind
	}
	at, err := root(b)
	if err != nil {
		return nil, err
	}
	in.begin()
	var input fb.ReconcileInput
	input.Init(b, at)
	r := &ReconcileRequest{Now: input.Now(), Refused: string(input.Refused()), Symbols: in.rows.Symbols}
	var o fb.ControlObject
	if input.Parent(&o) == nil {
		return nil, errShort
	}
	in.controlObject(&in.parent, &o)
	r.Parent = in.parent
	in.children = resize(in.children, input.ChildrenLength())
	for i := range in.children {
		input.Children(&o, i)
		in.controlObject(in.children[i], &o)
	}
	in.related = resize(in.related, input.RelatedLength())
	for i := range in.related {
		input.Related(&o, i)
		in.controlObject(in.related[i], &o)
	}
	r.Children, r.Related = in.children, in.related
	out, err := withinReconcile(in.control, r)
	if err != nil {
		return nil, err
	}
	return out.json(), nil
}

//go:noinline
func withinReconcile(c Reconciler, r *ReconcileRequest) (ReconcileResult, error) {
	return c.Reconcile(r)
}

// resize keeps the elements and what they hold, to be used again. Each is an
// object of its own: from a pointer into a large one a collector would have to
// look for its beginning.
func resize(list []*ControlObject, n int) []*ControlObject {
	for len(list) < n {
		if len(list) < cap(list) && list[:len(list)+1][len(list)] != nil {
			list = list[:len(list)+1]
			continue
		}
		list = append(list, new(ControlObject))
	}
	return list[:n]
}

// controlObject reads an object into the place of one that an earlier call gave,
// so that thousands of them leave little garbage. Texts are copied (pieces): they
// are not interned, since no symbol should outlive the call for what changes as
// often as a status does.
func (in *Instance) controlObject(to *ControlObject, o *fb.ControlObject) {
	d, syms := in.podDec, in.rows.Symbols
	to.APIVersion, to.Kind, to.syms = syms.text(o.ApiVersion()), syms.text(o.Kind()), syms
	to.Namespace, to.Name, to.UID, to.ResourceVersion = in.texts.of(o.Namespace()), in.texts.of(o.Name()), in.texts.of(o.Uid()), in.texts.of(o.ResourceVersion())
	to.Generation, to.Created, to.Deleted = o.Generation(), o.Created(), o.Deleted()
	to.Labels = Labels{syms, to.Labels.Pairs[:0]}
	if n := o.LabelsLength(); n > 0 {
		to.Labels.Pairs = d.pairs(to.Labels.Pairs, n, o.Labels)
	}
	to.Annotations = Labels{syms, to.Annotations.Pairs[:0]}
	if n := o.AnnotationsLength(); n > 0 {
		to.Annotations.Pairs = d.pairs(to.Annotations.Pairs, n, o.Annotations)
	}
	to.Owners = to.Owners[:0]
	if n := o.OwnersLength(); n > 0 {
		to.Owners = d.owners(to.Owners, n, o.Owners)
	}
	to.Finalizers = to.Finalizers[:0]
	for i, n := 0, o.FinalizersLength(); i < n; i++ {
		to.Finalizers = append(to.Finalizers, syms.text(o.Finalizers(i)))
	}
	to.fields = to.fields[:0]
	for i, n := 0, o.FieldsLength(); i < n; i++ {
		o.Fields(&in.field, i)
		to.fields = append(to.fields, controlField{syms.text(in.field.Path()), in.texts.of(in.field.Json())})
	}
	if to.HasPod = o.Pod(&in.podFacts) != nil; to.HasPod {
		to.Pod.read(&in.podFacts, syms, &in.texts)
	}
}

func (to *PodFacts) read(p *fb.PodFacts, syms *Symbols, t *pieces) {
	to.Phase, to.Ready, to.ReadySince = syms.text(p.Phase()), p.Ready(), p.ReadySince()
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

func (o *ReconcileResult) json() []byte {
	j := &JSON{}
	j.Open('{')
	if o.Status != "" {
		j.Key("status").Value(o.Status)
	}
	o.creations(j)
	o.patches(j)
	o.deletions(j)
	uids(j, "adopt", o.Adopt)
	uids(j, "release", o.Release)
	o.events(j)
	if o.RequeueAfter > 0 {
		j.Key("requeueAfterNanos").Int(int64(o.RequeueAfter))
	}
	uids(j, "why", o.Why)
	if o.Memory != "" {
		j.Key("memory").Value(o.Memory)
	}
	return j.Close('}').Bytes()
}

func (o *ReconcileResult) creations(j *JSON) {
	if len(o.Create) == 0 {
		return
	}
	j.Key("create").Open('[')
	for i := range o.Create {
		c := &o.Create[i]
		j.Open('{').Key("count").Int(c.Count).Member("from", c.From)
		if c.Object != "" {
			j.Key("object").Value(c.Object)
		}
		if len(c.Each) > 0 {
			j.Key("each").Open('[')
			for _, patch := range c.Each {
				j.Value(patch)
			}
			j.Close(']')
		}
		if c.Unowned {
			j.Key("unowned").Bool(true)
		}
		if c.Quiet {
			j.Key("quiet").Bool(true)
		}
		j.Member("success", c.Success).Member("failure", c.Failure).Close('}')
	}
	j.Close(']')
}

func (o *ReconcileResult) patches(j *JSON) {
	if len(o.Patch) == 0 {
		return
	}
	j.Key("patch").Open('[')
	for i := range o.Patch {
		p := &o.Patch[i]
		j.Open('{').Key("uid").Text(p.UID).Key("patch").Value(p.Patch).Member("subresource", p.Subresource).Close('}')
	}
	j.Close(']')
}

func (o *ReconcileResult) deletions(j *JSON) {
	if len(o.Delete) == 0 {
		return
	}
	j.Key("delete").Open('[')
	for i := range o.Delete {
		d := &o.Delete[i]
		j.Open('{').Key("uid").Text(d.UID)
		if d.HasGrace {
			j.Key("gracePeriodSeconds").Int(d.Grace)
		}
		j.Member("propagationPolicy", d.Propagation)
		if d.Quiet {
			j.Key("quiet").Bool(true)
		}
		j.Member("success", d.Success).Close('}')
	}
	j.Close(']')
}

func (o *ReconcileResult) events(j *JSON) {
	if len(o.Events) == 0 {
		return
	}
	j.Key("events").Open('[')
	for i := range o.Events {
		e := &o.Events[i]
		j.Open('{').Key("type").Text(e.Type).Key("reason").Text(e.Reason).Key("message").Text(e.Message)
		j.Member("about", e.About).Close('}')
	}
	j.Close(']')
}

func uids(j *JSON, key string, list []string) {
	if len(list) > 0 {
		j.Key(key)
		texts(j, list)
	}
}
