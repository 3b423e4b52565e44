package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// ControlObject is an object as a controller sees it: its metadata, and the
// fields that the policy's manifest asks for. Times are nanoseconds since
// 1970, 0 where there is none.
type ControlObject struct {
	APIVersion, Kind, Namespace, Name, UID string
	Generation, Created, Deleted           int64
	Labels, Annotations                    Labels
	Owners                                 []Owner
	syms                                   *Symbols
	fields                                 []controlField
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
func (o *ControlObject) Field(path string) Config {
	text := o.JSON(path)
	if text == "" {
		return Config{}
	}
	v, err := ParseConfig([]byte(text))
	if err != nil {
		return Config{}
	}
	return v
}

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
	Children, Related []ControlObject
	Symbols           *Symbols
}

// ReconcileResult is what a controller wants done. The host applies it: it sets owner
// references, names and namespaces, and refuses kinds that are not declared.
type ReconcileResult struct {
	// Status is JSON that replaces the parent's status; none leaves it.
	Status string
	// Create are children wanted that do not exist, as JSON.
	Create []Creation
	// Delete, Adopt and Release name children by UID, in the order in which
	// they are to be handled.
	Delete, Adopt, Release []string
	Events                 []Event
	// RequeueAfter is in how many nanoseconds to ask again; 0 waits for a change.
	RequeueAfter int64
}

// Creation is an object to create Count times.
type Creation struct {
	Object string
	Count  int64
}

// Event is one event on the parent.
type Event struct{ Type, Reason, Message string }

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
	r := &ReconcileRequest{Now: input.Now(), Symbols: in.rows.Symbols}
	var o fb.ControlObject
	if input.Parent(&o) == nil {
		return nil, errShort
	}
	r.Parent = in.controlObject(&o)
	for i := 0; i < input.ChildrenLength(); i++ {
		input.Children(&o, i)
		r.Children = append(r.Children, in.controlObject(&o))
	}
	for i := 0; i < input.RelatedLength(); i++ {
		input.Related(&o, i)
		r.Related = append(r.Related, in.controlObject(&o))
	}
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

// controlObject copies its texts, since no symbol should outlive the call for
// what changes as often as a status does.
func (in *Instance) controlObject(o *fb.ControlObject) ControlObject {
	d, syms := in.podDec, in.rows.Symbols
	out := ControlObject{
		APIVersion: syms.text(o.ApiVersion()), Kind: syms.text(o.Kind()), Namespace: string(o.Namespace()),
		Name: string(o.Name()), UID: string(o.Uid()), Generation: o.Generation(),
		Created: o.Created(), Deleted: o.Deleted(), syms: syms,
		Labels:      Labels{syms, d.pairs(nil, o.LabelsLength(), o.Labels)},
		Annotations: Labels{syms, d.pairs(nil, o.AnnotationsLength(), o.Annotations)},
		Owners:      d.owners(nil, o.OwnersLength(), o.Owners),
	}
	var f fb.Field
	for i := 0; i < o.FieldsLength(); i++ {
		o.Fields(&f, i)
		out.fields = append(out.fields, controlField{syms.text(f.Path()), string(f.Json())})
	}
	return out
}

func (o *ReconcileResult) json() []byte {
	j := &JSON{}
	j.Open('{')
	if o.Status != "" {
		j.Key("status").Value(o.Status)
	}
	if len(o.Create) > 0 {
		j.Key("create").Open('[')
		for _, c := range o.Create {
			j.Open('{').Key("count").Int(c.Count).Key("object").Value(c.Object).Close('}')
		}
		j.Close(']')
	}
	uids(j, "delete", o.Delete)
	uids(j, "adopt", o.Adopt)
	uids(j, "release", o.Release)
	if len(o.Events) > 0 {
		j.Key("events").Open('[')
		for _, e := range o.Events {
			j.Open('{').Key("type").Text(e.Type).Key("reason").Text(e.Reason).Key("message").Text(e.Message).Close('}')
		}
		j.Close(']')
	}
	if o.RequeueAfter > 0 {
		j.Key("requeueAfterNanos").Int(o.RequeueAfter)
	}
	return j.Close('}').Bytes()
}

func uids(j *JSON, key string, list []string) {
	if len(list) > 0 {
		j.Key(key)
		texts(j, list)
	}
}
