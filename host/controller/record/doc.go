// Package record keeps what controllers were asked, and what they answered, as the
// very bytes: each question can be put again, to the module that answered it or to
// another.
//
// A Log lies in memory, compressed, and takes a bounded number of bytes: the oldest
// go when newer ones need the room, and a restart forgets all. A Writer keeps all of
// them on disk besides:
//
//	DIR/questions/01772366400000000000.jsonl   a question a line, of a file that begins
//	    with the first one's time, in nanoseconds
//
// A file begins anew at each start and after 256 MiB. A host that is killed loses what
// it was about to write, and a machine that crashes the last second. A disk that is
// full holds nothing up: what is asked until there is room again is not recorded, and
// the log and the metrics say so.
package record
