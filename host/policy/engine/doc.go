// Package engine runs guests: it knows bytes and fuel, and knows no pods.
//
//	bytes ─► vet ─► compile in a child process ─► cache ─► Module ─► Instance ─► Call
//
// What it keeps true:
//   - The host compiles nothing that a stranger wrote. A child of this binary
//     does, under limits of CPU, memory and time and in an empty folder of its
//     own; the host takes exactly one entry from there, checks that it is what
//     it asked for, and loads only that.
//   - Every call runs under a budget of fuel, _initialize too, so that no guest
//     runs for long; a budget's end is told apart from a trap.
//   - Nothing a guest does panics or stalls the host. What goes wrong is a
//     *Failure; the instance is dead from then on and says so.
//   - An instance serves one call at a time, and answers are copied out of its
//     memory: no view into a guest outlives the call.
//   - A guest's clock, randomness, files and arguments never differ from one
//     instance to the next.
//
// A program that uses this package serves as its compile child, too: it becomes
// one when it is started so, before its main begins.
package engine
