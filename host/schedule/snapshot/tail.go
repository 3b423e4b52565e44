package snapshot

import "github.com/berth-dev/berth/host/schedule/chunkqueue"

// tail is the newest end of the log as deltas, for those who follow it closely:
// whoever is further behind gets a whole state sooner than all that came since.
type tail struct {
	limit int
	list  chunkqueue.List[Delta]
	// floor is the position after which all is there.
	floor uint64
}

const (
	deltaBytes = 72
	rowBytes   = 240
)

// newTail returns an empty tail. The less may be kept, the shorter are the
// pieces in which it goes.
func newTail(limit int, floor uint64) tail {
	length := max(16, min(1024, limit/(16*deltaBytes)))
	return tail{limit: limit, list: chunkqueue.New[Delta](length, deltaBytes), floor: floor}
}

// trim drops the oldest deltas beyond the limit.
func (t *tail) trim() {
	for t.list.Bytes() > t.limit {
		gone := t.list.Drop()
		if gone == nil {
			return
		}
		// What shares the last number with the next piece goes with it.
		t.floor = gone[len(gone)-1].Seq
	}
}

// near is how many of the newest deltas are looked at one after the other: most
// who ask are as close behind.
const near = 64

// since returns the deltas behind seq.
func (t *tail) since(seq uint64) (Deltas, bool) {
	if seq < t.floor {
		return Deltas{}, false
	}
	newest := t.list.Newest()
	for i := len(newest); i > max(0, len(newest)-near); i-- {
		if newest[i-1].Seq <= seq {
			return chunkqueue.Of(newest[i:]), true
		}
	}
	return t.far(seq), true
}

// far is since for those who are not near.
func (t *tail) far(seq uint64) Deltas {
	return t.list.From(t.list.Search(func(d *Delta) bool { return d.Seq > seq }))
}

// recent is what a tail held at some time, for whoever follows it from there on.
type recent struct {
	deltas Deltas
	floor  uint64
}

func (t *tail) held() *recent { return &recent{deltas: t.list.From(0), floor: t.floor} }

func (r *recent) since(seq uint64) (Deltas, bool) {
	if seq < r.floor {
		return Deltas{}, false
	}
	return r.deltas.From(func(d *Delta) bool { return d.Seq > seq }), true
}
