package store

import "context"

// Record is one entry of an engine: an opaque key, its bytes, and the revision
// of the change that wrote it last.
type Record struct {
	Key      string
	Value    []byte
	Revision int64
}

// Batch is what an engine commits in one piece. No key occurs twice in it.
type Batch struct {
	// Revision is kept as the engine's revision, together with the records: the
	// newest of what the batch changed, deletions and what it overwrote itself
	// included. 0 leaves the engine's revision as it is.
	Revision int64
	Puts     []Record
	Deletes  []string
	// Frees says that all of it deletes, or writes what is being deleted: it may
	// take room that is kept for that.
	Frees bool
}

// Limits is the largest batch that an engine takes. A record counts as its key
// and value and RecordOverhead.
type Limits struct {
	Bytes   int
	Records int
}

// RecordOverhead is what a record or a deletion weighs beyond key and value.
const RecordOverhead = 64

// Engine keeps records durably. host/store/badger is the embedded one; the
// shape is etcd's (a scan at one revision, a transaction, compaction), so that
// etcd can stand in its place. Each engine passes storetest.Engine.
//
// Scan may run beside Commit; Commit may be called by several goroutines.
type Engine interface {
	// Scan calls fn for the newest state of each record whose key begins with
	// prefix, by ascending key, all as of one moment, and returns the engine's
	// revision of that moment. With keysOnly the values are left out. fn owns
	// the Value that it is given. Scan stops at fn's first error and returns it.
	Scan(ctx context.Context, prefix string, keysOnly bool, fn func(Record) error) (revision int64, err error)
	// Commit makes the batch durable, all of it or nothing, before it returns.
	// ErrNoSpace and ErrTooLarge say that nothing was written. After
	// ErrUnavailable the revision that Scan returns tells whether the batch was,
	// once Scan answers again; until then both answer ErrUnavailable. After any
	// other error nobody knows, until the engine is opened anew.
	Commit(context.Context, Batch) error
	// Compact gives back the room of what was overwritten or deleted.
	Compact(context.Context) error
	Limits() Limits
	Close() error
}

func (r Record) weight() int { return len(r.Key) + len(r.Value) + RecordOverhead }

func (b Batch) weight() int {
	sum := 0
	for _, put := range b.Puts {
		sum += put.weight()
	}
	for _, key := range b.Deletes {
		sum += len(key) + RecordOverhead
	}
	return sum
}

// cut splits puts and deletions into batches that the limits allow, none of
// which sets a revision.
func cut(limits Limits, puts []Record, deletes []string) []Batch {
	var batches []Batch
	var b Batch
	size := 0
	room := func(weight int) {
		full := size+weight > limits.Bytes || len(b.Puts)+len(b.Deletes) >= limits.Records
		if full && size > 0 {
			batches, b, size = append(batches, b), Batch{}, 0
		}
		size += weight
	}
	for _, put := range puts {
		room(put.weight())
		b.Puts = append(b.Puts, put)
	}
	for _, key := range deletes {
		room(len(key) + RecordOverhead)
		b.Deletes = append(b.Deletes, key)
	}
	if size > 0 {
		batches = append(batches, b)
	}
	return batches
}
