// Package revision keeps the history of a workload: each template that it had,
// as a ControllerRevision with the names, labels and numbers that Kubernetes
// gives them.
//
// Source: k8s.io/kubernetes 1.36, pkg/controller/history.
package revision

import (
	"sort"
	"strconv"
	"strings"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// HashLabel holds the hash of a StatefulSet's revision.
const HashLabel = "controller.kubernetes.io/hash"

// maxPrefix keeps a name with a hash of ten characters below 253.
const maxPrefix = 223

// Kind is a ControllerRevision as Read needs it, among a controller's children.
var Kind = reconcile.Kind{
	APIVersion: "apps/v1", Kind: "ControllerRevision", Fields: []string{"data", "revision"},
	Writes: []string{"create", "patch", "delete"},
}

// Revision is one template of a workload's history.
type Revision struct {
	*reconcile.Object
	// Data is JSON: the patch by which a workload goes back to the template.
	Data string
	// Number is the greater the newer.
	Number int64
}

// Read reads a ControllerRevision of Kind.
func Read(o *reconcile.Object) Revision {
	n, _ := o.Field("revision").Number()
	return Revision{o, o.JSON("data"), int64(n)}
}

// Template is what spec.template was.
func Template(data string) sdk.Config {
	c, err := json.Parse([]byte(data))
	if err != nil {
		return sdk.Config{}
	}
	return c.Object("spec").Object("template")
}

// Claim returns the revisions that are the parent's and that its selector
// matches, the oldest first. Orphans among them are adopted.
func Claim(r *reconcile.Request, selector *facts.Selector, out *reconcile.Result) (list []Revision) {
	for _, o := range r.ChildrenOf(Kind.Kind) {
		if !selector.Matches(r.Symbols, o.Labels.Pairs) {
			continue
		}
		switch o.Controller() {
		case "":
			if r.Parent.Deleted != 0 {
				continue
			}
			out.Adopt = append(out.Adopt, o.UID)
		case r.Parent.UID:
		default:
			continue
		}
		list = append(list, Read(o))
	}
	sort.Stable(byNumber(list))
	return list
}

type byNumber []Revision

func (b byNumber) Len() int      { return len(b) }
func (b byNumber) Swap(i, j int) { b[i], b[j] = b[j], b[i] }

func (b byNumber) Less(i, j int) bool {
	p, q := &b[i], &b[j]
	if p.Number != q.Number {
		return p.Number < q.Number
	}
	if p.Created != q.Created {
		return p.Created < q.Created
	}
	return p.Name < q.Name
}

// Next is the number of a revision that follows a sorted list.
func Next(list []Revision) int64 {
	if len(list) == 0 {
		return 1
	}
	return list[len(list)-1].Number + 1
}

// Hash is that of a revision's data and of how many collisions of names there
// were: FNV-1 of 32 bits, in letters that make no words.
func Hash(data string, collisions int64) string {
	const offset, prime = 2166136261, 16777619
	h := uint32(offset)
	for i := range len(data) {
		h = h*prime ^ uint32(data[i])
	}
	probe := strconv.FormatInt(collisions, 10)
	for i := range len(probe) {
		h = h*prime ^ uint32(probe[i])
	}
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	text := []byte(strconv.FormatUint(uint64(h), 10))
	for i := range text {
		text[i] = letters[int(text[i])%len(letters)]
	}
	return string(text)
}

// Name is that of a revision of the parent.
func Name(parent, hash string) string {
	if len(parent) > maxPrefix {
		parent = parent[:maxPrefix]
	}
	return parent + "-" + hash
}

// Taken tells whether a child has that name already: it holds other data, or
// none would be made.
func Taken(r *reconcile.Request, name string) bool {
	for _, o := range r.ChildrenOf(Kind.Kind) {
		if o.Name == name {
			return true
		}
	}
	return false
}

// settling is how long another's object of the same name is taken for one that a
// workload of the same name left behind, and that is about to go.
const settling = 30 * pods.Second

// Refused tells whether the host found another's object of that name when it was
// to create the parent's, and whether that one may be about to go.
func Refused(r *reconcile.Request, name string) (taken, leaving bool) {
	taken = strings.Contains(r.Refused, `"`+name+`" already exists`)
	return taken, taken && r.Now-r.Parent.Created < settling
}

// New is a ControllerRevision to create. Labels are the template's, as JSON, and
// get the hash under a label more; annotations are the parent's.
func New(parent *reconcile.Object, name, label, hash string, labels sdk.Config, data string, number int64) reconcile.Creation {
	j := &json.Writer{}
	j.Open('{').Key("apiVersion").Text("apps/v1").Key("kind").Text(Kind.Kind)
	j.Key("metadata").Open('{').Key("name").Text(name).Key("labels").Open('{')
	for key, v := range labels.All {
		if key != label {
			j.Key(key).Value(v.JSON())
		}
	}
	j.Key(label).Text(hash).Close('}')
	j.Key("annotations").Open('{')
	for i := range parent.Annotations.Len() {
		key, value := parent.Annotations.At(i)
		j.Key(key).Text(value)
	}
	j.Close('}').Close('}')
	j.Key("data").Value(data).Key("revision").Int(number)
	return reconcile.Creation{Object: string(j.Close('}').Bytes()), Count: 1}
}

// Renumber patches a revision's number.
func Renumber(r *Revision, number int64) reconcile.Patch {
	return reconcile.Patch{UID: r.UID, Patch: `{"revision":` + strconv.FormatInt(number, 10) + `}`}
}

// Truncate deletes the oldest revisions that nobody uses, down to a limit.
func Truncate(list []Revision, live map[string]bool, limit int64, out *reconcile.Result) {
	var idle []*Revision
	for i := range list {
		if !live[list[i].Name] {
			idle = append(idle, &list[i])
		}
	}
	if limit < 0 {
		return
	}
	for i := 0; int64(i) < int64(len(idle))-limit; i++ {
		out.Delete = append(out.Delete, reconcile.Deletion{UID: idle[i].UID, Quiet: true})
	}
}
