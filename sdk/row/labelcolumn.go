package row

import "github.com/berth-dev/berth/sdk/facts"

// maxColumns bounds the label columns that an instance keeps; those least
// recently asked for go first.
const maxColumns = 64

// labelColumn holds the value of one label by slot.
type labelColumn struct {
	key    facts.Symbol
	values []facts.Symbol
	used   uint64
}

// LabelColumn returns the value of a label by slot, NoSymbol where a node has
// none. The first call for a key costs a walk over all rows; then the column
// is kept up to date. It is valid until the next call of LabelColumn from
// another cycle: ask again for each pod.
func (r *Table) LabelColumn(key facts.Symbol) []facts.Symbol {
	r.use++
	for _, c := range r.columns {
		if c.key == key {
			c.used = r.use
			return c.values
		}
	}
	c := &labelColumn{key: key, used: r.use, values: make([]facts.Symbol, len(r.Live), cap(r.Live))}
	for slot := range r.labels {
		c.values[slot] = r.Labels(int32(slot)).Value(key)
	}
	r.keep(c)
	return c.values
}

func (r *Table) keep(c *labelColumn) {
	if len(r.columns) < maxColumns {
		r.columns = append(r.columns, c)
		return
	}
	oldest := 0
	for i := range r.columns {
		if r.columns[i].used < r.columns[oldest].used {
			oldest = i
		}
	}
	r.columns[oldest] = c
}
