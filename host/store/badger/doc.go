// Package badger is the embedded store.Engine: a directory that one process
// holds, each commit one synced transaction.
//
// It repairs what a crash of Badger leaves (files of no length, which Badger
// refuses to open), refuses directories of another format, and names the way
// out in its errors.
package badger
