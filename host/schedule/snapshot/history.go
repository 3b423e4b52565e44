package snapshot

// history numbers the changes and keeps them twice: the newest as deltas, which
// are quick to follow, and all that fit into the limit in the least form.
type history struct {
	seq     uint64
	tail    tail
	changes changes
	beside  int
	// borrowed says that the pods belong to another cluster, where they stay.
	borrowed bool
}

// Of the limit, one part in tailShare is for deltas.
const (
	defaultLimit = 256 << 20
	tailShare    = 16
)

func newHistory(limit int) history {
	if limit <= 0 {
		limit = defaultLimit
	}
	return history{tail: newTail(limit/tailShare, 0), changes: newChanges(limit, 0)}
}

// next begins a new number; deltas that belong together share one.
func (h *history) next() {
	h.tail.trim()
	h.changes.trim(h.tail.list.Bytes() + h.beside)
	h.seq++
}

// tell appends a delta under the present number.
func (h *history) tell(d Delta, holds int) {
	d.Seq = h.seq
	h.tail.list.Add(d, holds)
}

// note appends a change under the present number.
func (h *history) note(what any, slot, index int32, holds int) {
	h.changes.list.Add(change{seq: h.seq, what: what, slot: slot, index: index}, holds)
}

// gone lets go of a pod; what is kept of it counts with the newest change.
func (h *history) gone(pod *Pod) {
	if !h.borrowed {
		h.changes.list.Hold(pod.ref.Pack())
	}
}

func (h *history) since(seq uint64) (Deltas, bool) {
	if seq >= h.seq {
		return Deltas{}, seq == h.seq
	}
	return h.tail.since(seq)
}

// LogBytes is about what the log takes in memory.
func (c *Cluster) LogBytes() int { return c.history.tail.list.Bytes() + c.history.changes.list.Bytes() }

// Beside tells what is kept beside the log and counts in its limit.
func (c *Cluster) Beside(bytes int) { c.history.beside = bytes }

// Oldest is the first position that the log can still tell.
func (c *Cluster) Oldest() uint64 { return c.history.changes.start }

// Forget drops the oldest part of the log; false if there is none to drop.
func (c *Cluster) Forget() bool { return c.history.changes.drop() }

// ForgetAll begins the log here. Whoever follows it starts again.
func (c *Cluster) ForgetAll() {
	c.history.next()
	c.history.tail = newTail(c.history.tail.limit, c.history.seq)
	c.history.changes = newChanges(c.history.changes.limit, c.history.seq)
}
