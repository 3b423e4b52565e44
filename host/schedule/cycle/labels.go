package cycle

import (
	"hash/maphash"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// labelColumn is one label of all rows, by slot; that with the key "" is their name.
type labelColumn struct {
	key    string
	values []string
	has    []bool
	// count is how many rows have each value, present how many have any.
	count   map[string]int
	present int
	// version grows as values come and go.
	version uint64
	// few is how many values it may have for all of them to be told apart.
	few int
}

// fewValues is how many values a label may have for all of them to be told apart,
// as zones are; of others, such as host names, only those that matter to a pod are.
const fewValues = 64

func (c *labelColumn) set(slot int32, row *snapshot.Row) {
	value, has := "", false
	switch {
	case row == nil:
	case c.key == "":
		value, has = row.Node.Name, true
	default:
		value, has = row.Node.Labels[c.key]
	}
	if has == c.has[slot] && value == c.values[slot] {
		return
	}
	c.drop(slot)
	if c.has[slot], c.values[slot] = has, value; !has {
		return
	}
	c.present++
	if c.count[value]++; c.count[value] == 1 {
		c.version++
	}
}

func (c *labelColumn) drop(slot int32) {
	if !c.has[slot] {
		return
	}
	c.present--
	value := c.values[slot]
	if c.count[value]--; c.count[value] == 0 {
		delete(c.count, value)
		c.version++
	}
}

// matters is what of the label tells rows apart: of values that no row has it does
// not matter which one it is.
func (c *labelColumn) matters(l abi.LabelDepends) abi.LabelDepends {
	if l.Any || len(c.count) <= c.few {
		return abi.LabelDepends{Key: l.Key, Any: true}
	}
	m := abi.LabelDepends{Key: l.Key}
	for _, v := range l.Values {
		if c.count[v] > 0 {
			m.Values = append(m.Values, v)
		}
	}
	return m
}

var labelSeed = maphash.MakeSeed()

// hash is that of a row's label, as far as it matters.
func (c *labelColumn) hash(slot int32, l *abi.LabelDepends) uint64 {
	switch value := c.values[slot]; {
	case !c.has[slot]:
		return 1
	case l.Any || slices.Contains(l.Values, value):
		return maphash.String(labelSeed, value)
	}
	return 2
}

// maxLabels is how many labels have columns.
const maxLabels = 64

// labelColumns are those of the labels that matter to policies.
type labelColumns struct {
	byKey map[string]*labelColumn
	// seen tells the labels that came by before.
	seen map[string]bool
	few  int // values of a label, see labelColumn
}

// column is that of a label. A label has none before it has mattered twice, nor when
// there are as many as there may be.
func (l *labelColumns) column(key string, log snapshot.Log) *labelColumn {
	if c, ok := l.byKey[key]; ok {
		return c
	}
	if !l.seen[key] || len(l.byKey) >= maxLabels {
		if len(l.seen) >= 16*maxLabels {
			clear(l.seen)
		}
		l.seen[key] = true
		return nil
	}
	n := int(log.Slots())
	c := &labelColumn{key: key, values: make([]string, n), has: make([]bool, n), count: map[string]int{}, few: l.few}
	for slot := range int32(n) {
		c.set(slot, log.Row(slot))
	}
	l.byKey[key] = c
	return c
}

func (l *labelColumns) grow(n int) {
	for _, c := range l.byKey {
		c.values, c.has = grown(c.values, n, ""), grown(c.has, n, false)
	}
}

func (l *labelColumns) put(slot int32, row *snapshot.Row) {
	for _, c := range l.byKey {
		c.set(slot, row)
	}
}
