package cycle

// blockParts is how many parts one top stands for: a decision looks at the tops
// and at one block, where it had to look at every part twice.
const blockParts = 64

// top is the highest total among some parts, and how many rows have it.
type top struct {
	total int64
	tied  int32
}

// retop brings the tops up to date where totals have changed: at some parts,
// or anywhere.
func (c *class) retop(changed []int32, anywhere bool) {
	blocks := (len(c.total) + blockParts - 1) / blockParts
	if anywhere || len(c.tops) != blocks || len(changed) > blocks {
		c.tops = grown(c.tops, blocks, top{})[:blocks]
		for block := range c.tops {
			c.retopBlock(block)
		}
		return
	}
	for _, id := range changed {
		c.retopBlock(int(id) / blockParts)
	}
}

func (c *class) retopBlock(block int) {
	from := block * blockParts
	to := min(from+blockParts, len(c.total))
	t := top{total: out}
	for id := from; id < to; id++ {
		switch total := c.total[id]; {
		case total < t.total || total == out: // nearly always: the first question is the only one
		case total == t.total:
			t.tied += c.size[id]
		default:
			t = top{total, c.size[id]}
		}
	}
	c.tops[block] = t
}

// best returns a row with the highest total, chosen by the seed among equals.
// Without changes of the field's own, the class's tops tell where to look.
func (f *field) best(seed uint64) choice {
	best := choice{slot: -1, total: out}
	if f.own {
		for _, total := range f.ownTotal {
			best.take(total, 1)
		}
	} else {
		for _, t := range f.class.tops {
			best.take(t.total, int(t.tied))
		}
	}
	if best.total == out {
		return choice{slot: -1}
	}
	best.slot = f.pick(best, seed)
	return best
}

func (c *choice) take(total int64, rows int) {
	switch {
	case total < c.total || total == out:
	case total == c.total:
		c.tied += rows
	default:
		c.total, c.tied = total, rows
	}
}

// rare is one row in so many: where fewer are tied, each is looked at; where more
// are, rows are drawn until one of them is hit. Neither depends on how the parts
// came to be, so that a decision which is made again ends the same.
const rare = 32

// maxDraws bounds the drawing, which ends long before.
const maxDraws = 1 << 12

// pick draws one of the rows that are tied.
func (f *field) pick(best choice, seed uint64) int32 {
	slots := uint64(f.class.part.end())
	for draw := uint64(0); draw < maxDraws && uint64(best.tied)*rare >= slots; draw++ {
		if slot := int32(splitmix(seed+draw) % slots); f.totalOf(slot) == best.total {
			return slot
		}
	}
	l := lot{slot: -1, seed: seed}
	if f.own {
		for slot, total := range f.ownTotal {
			if total == best.total {
				l.draw(int32(slot))
			}
		}
		return l.slot
	}
	c := f.class
	for block, t := range c.tops {
		if t.total != best.total {
			continue
		}
		from := block * blockParts
		for id := from; id < min(from+blockParts, len(c.total)); id++ {
			if c.total[id] != best.total {
				continue
			}
			for slot := c.part.parts[id].first; slot != none; slot = c.part.next[slot] {
				l.draw(slot)
			}
		}
	}
	return l.slot
}

// lot draws one of several slots, whatever their order.
type lot struct {
	seed, least uint64
	slot        int32
}

func (l *lot) draw(slot int32) {
	number := splitmix(l.seed ^ uint64(slot)<<32)
	if l.slot < 0 || number < l.least || number == l.least && slot < l.slot {
		l.least, l.slot = number, slot
	}
}
