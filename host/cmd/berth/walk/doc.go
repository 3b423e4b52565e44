// Package walk holds the tests that use the built binary as a user does: real
// containers, simulated nodes, kubectl and plain HTTP. It has no code of its
// own.
package walk
