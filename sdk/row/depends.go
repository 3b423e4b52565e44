package row

import (
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
)

// Depends is what answers depend on of the rows, where that is less than what the
// policy reads: the host asks about one of the rows that are equal in it. Of the
// simple faces it notes what their authors' code looks at; a policy that handles rows
// by itself tells it, see guest.Depender.
type Depends struct {
	rows   *Table
	groups abi.Groups
	labels []LabelDepends
	// changes counts what is new.
	changes int
}

// LabelDepends is what matters of a label: whether it is there, and which of some
// values it has, or any. The node's name stands under the key "".
type LabelDepends struct {
	Key    string
	Any    bool
	Values []facts.Symbol
}

// name is the key under which the node's name stands.
const name = ""

// Begin forgets what stood there; groups are those of which anything may matter.
func (d *Depends) Begin(groups abi.Groups) {
	d.groups = groups & (abi.NodeGroups | abi.NodeName)
	d.labels = d.labels[:0]
	d.changes++
}

// Label says that it matters whether a node has a label, and which of the values.
func (d *Depends) Label(key facts.Symbol, values ...facts.Symbol) {
	d.label(d.rows.Symbols.String(key), false, values)
}

// LabelValue says that a label's value matters, whichever it is.
func (d *Depends) LabelValue(key facts.Symbol) { d.label(d.rows.Symbols.String(key), true, nil) }

// Name says that it matters whether a node has one of some names.
func (d *Depends) Name(names ...facts.Symbol) { d.label(name, false, names) }

func (d *Depends) label(key string, any bool, values []facts.Symbol) {
	d.changes++
	for i := range d.labels {
		if l := &d.labels[i]; l.Key == key {
			l.Any = l.Any || any
			l.Values = append(l.Values, values...)
			return
		}
	}
	if len(d.labels) == abi.MaxDependsLabels {
		d.groups |= abi.NodeLabels | d.rows.reads&abi.NodeName
		return
	}
	if n := len(d.labels); n < cap(d.labels) {
		d.labels = d.labels[:n+1] // with the room for values that is there
	} else {
		d.labels = append(d.labels, LabelDepends{})
	}
	l := &d.labels[len(d.labels)-1]
	l.Key, l.Any, l.Values = key, any, append(l.Values[:0], values...)
}

// Groups are those of which anything matters.
func (d *Depends) Groups() abi.Groups { return d.groups }

// Labels are those of which something matters, each once.
func (d *Depends) Labels() []LabelDepends { return d.labels }

// Changes grows when there is more, or other, than before.
func (d *Depends) Changes() int { return d.changes }

// look notes that an author's code looked at groups.
func (d *Depends) look(groups abi.Groups) {
	if d.groups&groups != groups {
		d.groups |= groups
		d.changes++
	}
}

// maxLooked is how many labels an author's code may look at before all are taken to
// matter.
const maxLooked = 16

// lookLabel notes that an author's code looked at a label.
func (d *Depends) lookLabel(key string) {
	if d.groups&abi.NodeLabels != 0 {
		return
	}
	for i := range d.labels {
		if d.labels[i].Key == key {
			return
		}
	}
	d.changes++
	if key == name || len(d.labels) == maxLooked {
		d.groups |= abi.NodeLabels
		return
	}
	d.labels = append(d.labels, LabelDepends{Key: strings.Clone(key), Any: true})
}
