package daemonset

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// fit says on which nodes a pod of the template may run.
type fit struct {
	syms     *facts.Symbols
	nodeName string
	selector []facts.Requirement
	// required: one of the terms must match.
	required    bool
	terms       []facts.NodeTerm
	tolerations []toleration
	// text is the tolerations as a pod has them.
	text string
}

type toleration struct{ key, operator, value, effect string }

// own are those that pods of each DaemonSet have: nobody evicts them because of
// their node's state, nor keeps them from it.
var own = []toleration{
	{"node.kubernetes.io/not-ready", "Exists", "", "NoExecute"},
	{"node.kubernetes.io/unreachable", "Exists", "", "NoExecute"},
	{"node.kubernetes.io/disk-pressure", "Exists", "", "NoSchedule"},
	{"node.kubernetes.io/memory-pressure", "Exists", "", "NoSchedule"},
	{"node.kubernetes.io/pid-pressure", "Exists", "", "NoSchedule"},
	{"node.kubernetes.io/unschedulable", "Exists", "", "NoSchedule"},
}

// ofHosts is one more of pods in the host's network.
var ofHosts = toleration{"node.kubernetes.io/network-unavailable", "Exists", "", "NoSchedule"}

func (f *fit) read(s *set) error {
	const spec = "spec.template.spec."
	p := &s.Parent
	f.syms = s.Symbols
	f.nodeName, _ = p.Field(spec + "nodeName").Text()
	labels := p.Field(spec + "nodeSelector")
	for key, v := range labels.All {
		value, _ := v.Text()
		f.selector = append(f.selector, facts.Requirement{Key: s.Symbols.Intern(key), Values: []facts.Symbol{s.Symbols.Intern(value)}})
	}
	must := p.Field("spec.template." + required)
	f.required = !must.IsNull()
	var err error
	if f.terms, err = facts.NodeTerms(must, "nodeSelectorTerms", s.Symbols); err != nil {
		return err
	}
	f.tolerate(p.Field(spec+"tolerations").Items(), p.JSON(spec+"hostNetwork") == "true")
	return nil
}

// tolerate adds the set's own tolerations. One that the template has already,
// but for a time, is replaced.
func (f *fit) tolerate(given []sdk.Config, hostNetwork bool) {
	add := own
	if hostNetwork {
		add = append(add[:len(add):len(add)], ofHosts)
	}
	there := make([]bool, len(add))
	j := &json.Writer{}
	j.Open('[')
next:
	for _, c := range given {
		t := toleration{c.String("key", ""), c.String("operator", ""), c.String("value", ""), c.String("effect", "")}
		f.tolerations = append(f.tolerations, t)
		for i := range add {
			if add[i] == t {
				there[i] = true
				t.write(j)
				continue next
			}
		}
		j.Value(c.JSON())
	}
	for i := range add {
		if !there[i] {
			f.tolerations = append(f.tolerations, add[i])
			add[i].write(j)
		}
	}
	f.text = string(j.Close(']').Bytes())
}

func (t *toleration) write(j *json.Writer) {
	j.Open('{').Key("key").Text(t.key).Key("operator").Text(t.operator).Key("effect").Text(t.effect).Close('}')
}

// node tells whether a pod should be made on a node, and whether one that is
// there may stay.
func (f *fit) node(o *reconcile.Object) (run, stay bool) {
	if f.nodeName != "" && f.nodeName != o.Name || !f.affine(o) {
		return false, false
	}
	run, stay = true, true
	for _, taint := range o.Field("spec.taints").Items() {
		switch effect := taint.String("effect", ""); {
		case effect != "NoExecute" && effect != "NoSchedule" || f.tolerates(taint, effect):
		case effect == "NoExecute":
			return false, false
		default:
			run = false
		}
	}
	return run, stay
}

func (f *fit) tolerates(taint sdk.Config, effect string) bool {
	key, value := taint.String("key", ""), taint.String("value", "")
	for i := range f.tolerations {
		t := &f.tolerations[i]
		if (t.effect == "" || t.effect == effect) && (t.key == "" || t.key == key) &&
			(t.operator == "Exists" || (t.operator == "" || t.operator == "Equal") && t.value == value) {
			return true
		}
	}
	return false
}

func (f *fit) affine(o *reconcile.Object) bool {
	if !f.all(f.selector, o) {
		return false
	}
	if !f.required {
		return true
	}
	for i := range f.terms {
		t := &f.terms[i]
		if len(t.Labels)+len(t.Names) > 0 && f.all(t.Labels, o) && f.named(t.Names, o.Name) {
			return true
		}
	}
	return false
}

func (f *fit) all(reqs []facts.Requirement, o *reconcile.Object) bool {
	for i := range reqs {
		if !reqs[i].Holds(f.syms, o.Labels.Value(reqs[i].Key)) {
			return false
		}
	}
	return true
}

// named judges requirements of the node's name, which is no symbol.
func (f *fit) named(reqs []facts.Requirement, name string) bool {
	for i := range reqs {
		r := &reqs[i]
		if len(r.Values) != 1 || r.Op != facts.In && r.Op != facts.NotIn {
			return false
		}
		if (f.syms.String(r.Values[0]) == name) != (r.Op == facts.In) {
			return false
		}
	}
	return true
}
