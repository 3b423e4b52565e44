package chunkqueue

import (
	"iter"
	"slices"
	"sort"
)

// Part is what there was of a list from some place on. It is never changed.
type Part[T any] struct {
	first []T
	rest  [][]T
}

// Of is a part in one piece.
func Of[T any](list []T) Part[T] { return Part[T]{first: list} }

// Len is how many elements there are.
func (p Part[T]) Len() int {
	n := len(p.first)
	for _, piece := range p.rest {
		n += len(piece)
	}
	return n
}

// Pieces walks the pieces, none of which is empty.
func (p Part[T]) Pieces() iter.Seq[[]T] {
	return func(yield func([]T) bool) {
		if len(p.first) > 0 && !yield(slices.Clip(p.first)) {
			return
		}
		for _, piece := range p.rest {
			if !yield(slices.Clip(piece)) {
				return
			}
		}
	}
}

// All walks the elements.
func (p Part[T]) All() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for piece := range p.Pieces() {
			for i := range piece {
				if !yield(&piece[i]) {
					return
				}
			}
		}
	}
}

// Backward walks the elements from the newest to the oldest.
func (p Part[T]) Backward() iter.Seq[*T] {
	return func(yield func(*T) bool) {
		for at := len(p.rest); at >= 0; at-- {
			piece := p.first
			if at > 0 {
				piece = p.rest[at-1]
			}
			for i := len(piece) - 1; i >= 0; i-- {
				if !yield(&piece[i]) {
					return
				}
			}
		}
	}
}

// Whole is the part in one piece: a copy where it lies in several.
func (p Part[T]) Whole() []T {
	if len(p.rest) == 0 {
		return slices.Clip(p.first)
	}
	return slices.Concat(append([][]T{p.first}, p.rest...)...)
}

// From is the rest from the first element on that is past something; all behind
// it are past it, too.
func (p Part[T]) From(past func(*T) bool) Part[T] {
	all := append([][]T{p.first}, p.rest...)
	at, i := search(all, past)
	if at == len(all) {
		return Part[T]{}
	}
	return Part[T]{first: all[at][i:], rest: all[at+1:]}
}

// search finds the piece and the place of the first element that is past
// something: the place behind the last where there is none.
func search[T any](pieces [][]T, past func(*T) bool) (piece, place int) {
	piece = sort.Search(len(pieces), func(i int) bool {
		n := len(pieces[i])
		return n > 0 && past(&pieces[i][n-1])
	})
	if piece == len(pieces) {
		return piece, 0
	}
	list := pieces[piece]
	return piece, sort.Search(len(list), func(i int) bool { return past(&list[i]) })
}
