// Package journal keeps lines of JSON in the files of a folder, each named by the
// number that it begins with: what a host records for ever and reads again.
//
// A line that was cut is the end of its file; all before it can be read. A disk
// that refuses, because it is full, is left alone for a while, and costs what would
// have been written meanwhile, and nothing else.
package journal
