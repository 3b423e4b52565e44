// Package scaffold writes the folder of a new policy: one that builds at once,
// offline, with the SDK and its one dependency vendored from this binary.
//
// The folder flatbuffers holds that dependency's sources as they are, since a
// binary can only carry files of its own module; a test keeps them the same as
// those that go.mod names. They are Google's, under the licence beside them.
package scaffold
