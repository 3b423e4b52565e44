package guest

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/row"
)

// Depends is what the answers about the pod of the cycle depend on so far, as JSON;
// empty where that is all that the policy reads, whatever the pod.
func (in *Instance) Depends() ([]byte, error) {
	if !in.asked {
		return nil, errNoPod
	}
	d := in.rows.Depends()
	switch {
	case in.depender != nil:
		d.Begin(in.policy.Reads &^ (abi.NodeLabels | abi.NodeName))
		in.depender.Depends(d)
	case !in.forgets:
		return nil, nil
	}
	return in.depends.bytes(d, in.rows.Symbols), nil
}

// dependsText is what an instance answered last of what its answers depend on.
type dependsText struct {
	out json.Writer
	// changes is that of the row.Depends that was written.
	changes int
}

// mostDepends is how many bytes are written before all is said to matter.
const mostDepends = abi.MaxDepends / 2

func (t *dependsText) bytes(d *row.Depends, syms *facts.Symbols) []byte {
	if len(t.out.Bytes()) > 0 && t.changes == d.Changes() {
		return t.out.Bytes()
	}
	t.changes = d.Changes()
	w := t.out.Reset().Open('{').Key("groups").Open('[')
	for i, group := range abi.GroupNames {
		if d.Groups()&(1<<i) != 0 {
			w.Text(group)
		}
	}
	w.Close(']')
	var name *row.LabelDepends
	w.Key("labels").Open('{')
	for i := range d.Labels() {
		switch l := &d.Labels()[i]; {
		case l.Key == "":
			name = l
		case d.Groups()&abi.NodeLabels == 0:
			w.Key(l.Key)
			t.values(l, syms)
		}
	}
	w.Close('}')
	if name != nil && d.Groups()&abi.NodeName == 0 {
		w.Key("name")
		t.values(name, syms)
	}
	if w.Close('}'); len(w.Bytes()) > mostDepends {
		w.Reset().Raw("null")
	}
	return w.Bytes()
}

func (t *dependsText) values(l *row.LabelDepends, syms *facts.Symbols) {
	if l.Any {
		t.out.Value("null")
		return
	}
	t.out.Open('[')
	for _, v := range l.Values {
		if len(t.out.Bytes()) > mostDepends {
			break
		}
		t.out.Text(syms.String(v))
	}
	t.out.Close(']')
}
