// Package logs writes and reads the output of containers in CRI format: one
// line is "<RFC3339 time> <stdout|stderr> <F|P> <text>", where P marks a piece
// of a line that goes on in the next record of its stream.
//
// The writer rotates: the newest records are in the file that was named, older
// ones in NAME.1, NAME.2 and so on. The reader follows over rotations. Both are
// independent of the runtime, and no file is ever read whole.
package logs
