//go:build race

package enginetest

// Race says that the race detector slows this binary.
const Race = true
