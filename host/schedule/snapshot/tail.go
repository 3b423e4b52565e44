package snapshot

import (
	"slices"
	"sort"
)

// tail is the newest end of the log as deltas, for those who follow it closely:
// whoever is further behind gets a whole state sooner than all that came since.
type tail struct {
	limit  int
	bytes  int
	chunks []chunk
	// floor is the position after which all is there.
	floor uint64
}

type chunk struct {
	deltas []Delta
	bytes  int
}

const (
	deltaBytes = 72
	rowBytes   = 240
)

// add appends a delta, which keeps so many bytes alive beside itself.
func (t *tail) add(d Delta, holds int) {
	n := len(t.chunks)
	if n == 0 || len(t.chunks[n-1].deltas) == t.length() {
		t.chunks = append(t.chunks, chunk{deltas: make([]Delta, 0, t.length()), bytes: t.length() * deltaBytes})
		t.bytes += t.length() * deltaBytes
		n++
	}
	last := &t.chunks[n-1]
	last.deltas = append(last.deltas, d)
	last.bytes += holds
	t.bytes += holds
}

// length is how many deltas lie together. The less may be kept, the shorter
// are the pieces in which it goes.
func (t *tail) length() int { return max(16, min(1024, t.limit/(16*deltaBytes))) }

// trim drops the oldest deltas beyond the limit.
func (t *tail) trim() {
	for t.bytes > t.limit && len(t.chunks) > 1 {
		gone := t.chunks[0]
		t.chunks[0] = chunk{}
		t.chunks = t.chunks[1:]
		t.bytes -= gone.bytes
		// What shares the last number with the next chunk goes with it.
		t.floor = gone.deltas[len(gone.deltas)-1].Seq
	}
}

func (t *tail) forget(seq uint64) { *t = tail{limit: t.limit, floor: seq} }

// held is what there is now, for somebody who reads it while the log goes on.
func (t *tail) held() *tail {
	h := &tail{chunks: make([]chunk, len(t.chunks)), floor: t.floor}
	for i, c := range t.chunks {
		h.chunks[i].deltas = slices.Clip(c.deltas)
	}
	return h
}

// since returns the deltas behind seq. Most who ask are close behind, and get a
// part of what is there; a copy is made where it lies in several pieces.
func (t *tail) since(seq uint64) ([]Delta, bool) {
	if seq < t.floor {
		return nil, false
	}
	at := len(t.chunks) - 1
	for at > 0 && t.chunks[at].deltas[0].Seq > seq+1 {
		at--
	}
	if at < 0 {
		return nil, true
	}
	if at > 0 && t.chunks[at-1].deltas[len(t.chunks[at-1].deltas)-1].Seq > seq {
		at-- // the number's first deltas
	}
	list := t.chunks[at].deltas
	from, n := firstAfter(list, seq), len(list)
	if at == len(t.chunks)-1 {
		return list[from:n:n], true
	}
	all := append([]Delta(nil), list[from:]...)
	for _, c := range t.chunks[at+1:] {
		all = append(all, c.deltas...)
	}
	return all, true
}

// firstAfter is the index of the first delta behind seq.
func firstAfter(list []Delta, seq uint64) int {
	n := len(list)
	for i := n; i > 0 && i > n-16; i-- {
		if list[i-1].Seq <= seq {
			return i
		}
	}
	return sort.Search(n, func(i int) bool { return list[i].Seq > seq })
}
