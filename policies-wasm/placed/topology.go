package placed

import (
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/row"
)

// Topology parts the rows by the value of one label.
type Topology struct {
	key facts.Symbol
	// Domain is a row's part, by slot; -1 where it has none.
	Domain []int32
	// Rows is how many rows are in each part, and With how many are in any.
	Rows []int32
	With int

	values map[facts.Symbol]int32
	of     []facts.Symbol // the value of each part
	free   []int32
	users  int
}

func newTopology(key facts.Symbol) *Topology {
	return &Topology{key: key, values: map[facts.Symbol]int32{}}
}

// Len is one more than the highest part that was ever in use.
func (t *Topology) Len() int { return len(t.Rows) }

// ByNode says that each row is a part of its own.
func (t *Topology) ByNode() bool { return t.key == facts.NoSymbol }

func (t *Topology) grow(slots int) {
	for len(t.Domain) < slots {
		t.Domain = append(t.Domain, -1)
	}
}

// enter puts a row into its part.
func (t *Topology) enter(slot int32, rows *row.Table) {
	t.grow(int(slot) + 1)
	domain := slot
	if !t.ByNode() {
		value := rows.Labels(slot).Value(t.key)
		if value == facts.NoSymbol {
			return
		}
		domain = t.domain(value)
	}
	for int(domain) >= len(t.Rows) {
		t.Rows = append(t.Rows, 0)
	}
	t.Domain[slot] = domain
	t.Rows[domain]++
	t.With++
}

func (t *Topology) domain(value facts.Symbol) int32 {
	if d, ok := t.values[value]; ok {
		return d
	}
	d := int32(len(t.of))
	if n := len(t.free); n > 0 {
		d, t.free = t.free[n-1], t.free[:n-1]
		t.of[d] = value
	} else {
		t.of = append(t.of, value)
	}
	t.values[value] = d
	return d
}

// leave takes a row out of its part. A part without rows may stand for another
// value later: no tally counts anything there any more.
func (t *Topology) leave(slot int32) {
	if int(slot) >= len(t.Domain) {
		return
	}
	d := t.Domain[slot]
	if d < 0 {
		return
	}
	t.Domain[slot] = -1
	t.Rows[d]--
	t.With--
	if t.Rows[d] == 0 && !t.ByNode() {
		delete(t.values, t.of[d])
		t.free = append(t.free, d)
	}
}
