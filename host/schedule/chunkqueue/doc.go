// Package chunkqueue is a list that grows at one end for good and goes at the
// other: a piece at a time, as the bytes that it keeps alive want it. It grows
// within the arrays of its pieces, so whoever has taken a part of it may read
// on, from any goroutine, while the list goes on.
package chunkqueue
