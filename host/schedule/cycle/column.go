package cycle

import (
	"context"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// unknown marks a cell that has not been asked or has changed since.
const (
	unknownVerdict = ^framework.ReasonID(0)
	unknownRaw     = int64(-1 << 63)
)

// columnKey is what remembered answers are found by.
type columnKey struct {
	identity [32]byte
	pod      uint64
	scores   bool
}

// column is a policy's remembered answers about one kind of pod.
type column struct {
	key    columnKey
	groups abi.Groups
	// seq is the log's position up to which stale cells are marked.
	seq      uint64
	answered bool
	answer   framework.Answer
	// held counts the remembered classes that use the column.
	held     int
	verdicts []framework.ReasonID
	raw      []int64
}

// bytes is what the column holds in memory.
func (c *column) bytes() int64 { return int64(4*cap(c.verdicts) + 8*cap(c.raw) + 160) }

// sync marks the cells whose rows changed in a group that the policy reads.
func (c *column) sync(log snapshot.Log) {
	now := log.Seq()
	if !c.fit(int(log.Slots())) && c.seq == now {
		return
	}
	deltas, ok := log.Since(c.seq)
	if !ok {
		c.forget()
	}
	for d := range deltas.All() {
		if d.Kind > snapshot.RowRemove {
			continue
		}
		// Another node at the slot changes even what reads no group of it.
		if d.Groups&c.groups != 0 || d.Groups == abi.NodeGroups {
			c.mark(d.Slot)
		}
	}
	c.seq = now
}

// fit grows the column to n slots and says whether it had to.
func (c *column) fit(n int) bool {
	if c.key.scores {
		if len(c.raw) >= n {
			return false
		}
		c.raw = grown(c.raw, n, unknownRaw)
		return true
	}
	if len(c.verdicts) >= n {
		return false
	}
	c.verdicts = grown(c.verdicts, n, unknownVerdict)
	return true
}

func grown[T any](old []T, n int, fill T) []T {
	next := make([]T, n)
	for i := copy(next, old); i < n; i++ {
		next[i] = fill
	}
	return next
}

func (c *column) mark(slot int32) {
	if c.key.scores {
		c.raw[slot] = unknownRaw
		return
	}
	c.verdicts[slot] = unknownVerdict
}

// unknown lists those of rows that have no verdict.
func (c *column) unknown(rows []int32) []int32 {
	var list []int32
	for _, slot := range rows {
		if c.verdicts[slot] == unknownVerdict {
			list = append(list, slot)
		}
	}
	slices.Sort(list)
	return list
}

// lose takes the verdicts of rows away, as far as there are any.
func (c *column) lose(rows []int32) {
	for _, slot := range rows {
		if slot >= 0 && int(slot) < len(c.verdicts) {
			c.verdicts[slot] = unknownVerdict
		}
	}
}

func (c *column) forget() {
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
