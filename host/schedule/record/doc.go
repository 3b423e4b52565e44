// Package record keeps all states and decisions of a scheduler on disk, so that
// a decision can be derived again after it has left the log in memory, and
// after restarts.
//
//	DIR/decisions/00000000000000000000.jsonl   the first decision in it names a file
//	    a whole state, then each change and each decision, a line each
//
// A file begins anew at each start and after 256 MiB. What is written is handed
// to the operating system after each batch, before any of it is bound: a host
// that is killed loses nothing that its nodes heard of. It is synced each second
// and at a file's end: a crash of the machine may cost the last second. A line
// that was cut is the end of its file; all before it can be read.
//
// A decision's line tells also what preemption reckoned with; recordings of
// versions that did not keep that are read nevertheless, and replayed without it.
//
// A disk that is full holds nothing up: what is decided until there is room again
// is not recorded, and the log and the metrics say so.
package record
