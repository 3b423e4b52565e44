package chunkqueue

import (
	"math/bits"
	"slices"
)

// List is such a list. It belongs to one goroutine; its elements are not
// changed once they are in it.
type List[T any] struct {
	pieces [][]T // all but the last are full
	held   []int // the bytes that each piece takes
	bytes  int
	shift  int // a piece has 1<<shift places
	each   int // the bytes of a place
}

// New returns an empty list. Its pieces have up to length places, the next lower
// power of two; a place counts as so many bytes.
func New[T any](length, each int) List[T] {
	return List[T]{shift: bits.Len(uint(max(length, 1))) - 1, each: each}
}

// Add appends an element, which keeps so many bytes alive beside itself.
func (l *List[T]) Add(v T, holds int) {
	n := len(l.pieces) - 1
	if n < 0 || len(l.pieces[n]) == cap(l.pieces[n]) {
		n = l.grow()
	}
	l.pieces[n] = append(l.pieces[n], v)
	l.held[n] += holds
	l.bytes += holds
}

// grow begins a piece and returns its index.
func (l *List[T]) grow() int {
	l.pieces = append(l.pieces, make([]T, 0, 1<<l.shift))
	l.held = append(l.held, l.each<<l.shift)
	l.bytes += l.each << l.shift
	return len(l.pieces) - 1
}

// Hold counts further bytes, which go with the newest element. An empty list
// holds nothing.
func (l *List[T]) Hold(bytes int) {
	if n := len(l.held); n > 0 {
		l.held[n-1] += bytes
		l.bytes += bytes
	}
}

// Bytes is about what the list takes, with all that it keeps alive.
func (l *List[T]) Bytes() int { return l.bytes }

// Len is how many elements there are.
func (l *List[T]) Len() int {
	n := len(l.pieces)
	if n == 0 {
		return 0
	}
	return (n-1)<<l.shift + len(l.pieces[n-1])
}

// At is the element at an index, which counts from the oldest that is there.
func (l *List[T]) At(i int) *T { return &l.pieces[i>>l.shift][i&(1<<l.shift-1)] }

// Oldest is the piece that Drop would let go of; nil where it would not.
func (l *List[T]) Oldest() []T {
	if len(l.pieces) < 2 {
		return nil
	}
	return l.pieces[0]
}

// Drop lets go of the oldest piece and returns it; the newest stays, and nil is
// returned.
func (l *List[T]) Drop() []T {
	gone := l.Oldest()
	if gone == nil {
		return nil
	}
	l.bytes -= l.held[0]
	l.pieces[0] = nil
	l.pieces, l.held = l.pieces[1:], l.held[1:]
	return gone
}

// Newest is the piece that is added to; nil where there is none.
func (l *List[T]) Newest() []T {
	if len(l.pieces) == 0 {
		return nil
	}
	return l.pieces[len(l.pieces)-1]
}

// Search is the index of the first element that is past something; all behind
// it are past it, too.
func (l *List[T]) Search(past func(*T) bool) int {
	piece, i := search(l.pieces, past)
	if piece == len(l.pieces) {
		return l.Len()
	}
	return piece<<l.shift + i
}

// From is the part from an index on, as it is now.
func (l *List[T]) From(i int) Part[T] {
	n, at := len(l.pieces), i>>l.shift
	if at >= n {
		return Part[T]{}
	}
	first := l.pieces[at][i&(1<<l.shift-1):]
	if at == n-1 {
		return Part[T]{first: first}
	}
	return Part[T]{first: first, rest: slices.Clone(l.pieces[at+1:])}
}
