package cycle

// blockRows is how many slots one top stands for: a decision looks at the tops
// and at one block, where it had to look at every row twice.
const blockRows = 64

// top is the highest total among some slots, how many have it, and how many of
// the slots hold a row.
type top struct {
	total      int64
	tied, rows int32
}

// retop brings the tops up to date where totals have changed: at some slots,
// or anywhere.
func (c *class) retop(changed []int32, anywhere bool) {
	blocks := (len(c.total) + blockRows - 1) / blockRows
	if anywhere || len(c.tops) != blocks || len(changed) > blocks {
		if cap(c.tops) < blocks {
			c.tops = make([]top, blocks, blocks+blocks/4)
		}
		c.tops = c.tops[:blocks]
		for block := range c.tops {
			c.retopBlock(block)
		}
		return
	}
	for _, slot := range changed {
		c.retopBlock(int(slot) / blockRows)
	}
}

func (c *class) retopBlock(block int) {
	from := block * blockRows
	to := min(from+blockRows, len(c.total))
	t := top{total: out}
	t.total, t.tied = highest(c.total[from:to])
	for _, by := range c.by[from:to] {
		if by != empty {
			t.rows++
		}
	}
	c.tops[block] = t
}

// highest returns the highest of totals and how many times it stands there.
func highest(totals []int64) (top int64, tied int32) {
	top = out
	for _, t := range totals {
		switch {
		case t < top: // nearly always: the first question is the only one
		case t == top:
			tied++
		default:
			top, tied = t, 1
		}
	}
	return top, tied
}

// best returns a slot with the highest total, chosen by the seed among equals.
// Without changes of the field's own, the class's tops tell where to look.
func (f *field) best(seed uint64) choice {
	if f.own {
		return pick(f.total, seed)
	}
	top, tied := out, int32(0)
	for _, t := range f.class.tops {
		switch {
		case t.total < top:
		case t.total == top:
			tied += t.tied
		default:
			top, tied = t.total, t.tied
		}
	}
	if top == out {
		return choice{slot: -1}
	}
	left := int32(splitmix(seed) % uint64(tied))
	for block, t := range f.class.tops {
		if t.total != top {
			continue
		}
		if left < t.tied {
			from := block * blockRows
			return choice{slot: nth(f.total, from, top, left), total: top, tied: int(tied)}
		}
		left -= t.tied
	}
	return choice{slot: -1}
}

// pick is best over all totals.
func pick(totals []int64, seed uint64) choice {
	top, tied := highest(totals)
	if top == out {
		return choice{slot: -1}
	}
	left := int32(splitmix(seed) % uint64(tied))
	return choice{slot: nth(totals, 0, top, left), total: top, tied: int(tied)}
}

// nth finds, from a slot on, the one with that total that has left before it.
func nth(totals []int64, from int, top int64, left int32) int32 {
	for slot := from; slot < len(totals); slot++ {
		if totals[slot] != top {
			continue
		}
		if left == 0 {
			return int32(slot)
		}
		left--
	}
	return -1
}
