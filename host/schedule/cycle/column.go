package cycle

import (
	"context"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
)

// Cells that have no answer: not asked yet, and asked just now.
const (
	unknownVerdict = ^framework.ReasonID(0)
	pendingVerdict = unknownVerdict - 1
	unknownRaw     = int64(-1 << 63)
	pendingRaw     = unknownRaw + 1
)

// columnKey is what remembered answers are found by.
type columnKey struct {
	identity [32]byte
	pod      uint64
	scores   bool
}

// column is a policy's remembered answers about one kind of pod, one for each part
// of the rows as the policy sees them.
type column struct {
	key  columnKey
	part *partition
	// reads is what its policy reads; depends is what the answers depend on of it, nil
	// for all, and labels are those that matter.
	reads   abi.Groups
	depends *abi.Depends
	labels  []*labelColumn
	// at is the place in the partition's journal of new parts up to which stale
	// cells are marked.
	at       uint64
	answered bool
	answer   framework.Answer
	// blank says that no cell has an answer.
	blank bool
	// held counts the remembered classes that use the column.
	held     int
	verdicts []framework.ReasonID
	raw      []int64
}

// bytes is what the column holds in memory.
func (c *column) bytes() int64 { return int64(4*cap(c.verdicts) + 8*cap(c.raw) + 160) }

// sync marks the cells of parts that are new.
func (c *column) sync() {
	now := c.part.born.end()
	if c.at == now && len(c.verdicts)+len(c.raw) >= len(c.part.parts) {
		return
	}
	n := len(c.part.parts)
	if c.key.scores {
		c.raw = grown(c.raw, n, unknownRaw)
	} else {
		c.verdicts = grown(c.verdicts, n, unknownVerdict)
	}
	born, ok := c.part.born.since(c.at)
	c.at = now
	if !ok {
		c.forget()
	}
	for _, id := range born {
		c.mark(id)
	}
}

// grown lengthens a list to n, if it is shorter.
func grown[T any](old []T, n int, fill T) []T {
	if len(old) >= n {
		return old
	}
	next := old
	if cap(old) < n {
		next = make([]T, len(old), n+n/2)
		copy(next, old)
	}
	next = next[:n]
	for i := len(old); i < n; i++ {
		next[i] = fill
	}
	return next
}

func (c *column) mark(id int32) {
	if c.key.scores {
		c.raw[id] = unknownRaw
		return
	}
	c.verdicts[id] = unknownVerdict
}

func (c *column) markAll(cells []int32) {
	for _, cell := range cells {
		c.mark(cell)
	}
}

// ask says whether a cell is to be asked about, and takes it for asked from now on.
func (c *column) ask(cell int32) bool {
	if c.key.scores {
		if c.raw[cell] != unknownRaw {
			return false
		}
		c.raw[cell] = pendingRaw
		return true
	}
	if c.verdicts[cell] != unknownVerdict {
		return false
	}
	c.verdicts[cell] = pendingVerdict
	return true
}

// lose takes the verdicts of rows away, as far as there are any.
func (c *column) lose(rows []int32) {
	for _, slot := range rows {
		if slot >= 0 && int(slot) < len(c.part.of) && c.part.of[slot] != none {
			c.verdicts[c.part.of[slot]] = unknownVerdict
		}
	}
}

func (c *column) forget() {
	c.blank = true
	for i := range c.raw {
		c.raw[i] = unknownRaw
	}
	for i := range c.verdicts {
		c.verdicts[i] = unknownVerdict
	}
}

// session is one cycle's conversation with one policy: Pod is asked at most once.
type session struct {
	policy framework.Policy
	asked  bool
	answer framework.Answer
	err    error
}

func (s *session) ask(ctx context.Context, r *run) (framework.Answer, error) {
	if !s.asked {
		s.asked = true
		s.answer, s.err = s.policy.Pod(ctx, r.log, r.pod, r.now)
	}
	return s.answer, s.err
}
