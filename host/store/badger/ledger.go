package badger

import (
	"encoding/binary"
	"fmt"
	"hash/maphash"

	"github.com/cespare/xxhash/v2"

	"github.com/berth-dev/berth/host/store"
)

// state is what is known of the records as a whole. Each commit writes it
// together with its records, so that what is found at the next start can be held
// against it: a record that is gone, old or changed is missed.
type state struct {
	commit   uint64 // grows by one with each commit
	revision int64
	records  uint64
	sum      uint64 // of the sums of all records
}

func (s state) encode() []byte {
	data := binary.BigEndian.AppendUint64(nil, s.commit)
	data = binary.BigEndian.AppendUint64(data, uint64(s.revision))
	data = binary.BigEndian.AppendUint64(data, s.records)
	return binary.BigEndian.AppendUint64(data, s.sum)
}

func decodeState(data []byte) (state, error) {
	if len(data) != 32 {
		return state{}, fmt.Errorf("%w: the state of the records has %d bytes", store.ErrCorrupt, len(data))
	}
	n := func(i int) uint64 { return binary.BigEndian.Uint64(data[8*i:]) }
	return state{commit: n(0), revision: int64(n(1)), records: n(2), sum: n(3)}, nil
}

// ledger keeps the sum of each record by its key, in some 30 bytes a record: to
// take a record out of the whole sum, its own must be known. Keys are told apart
// by a hash that nobody outside can foresee.
type ledger struct {
	state
	seed maphash.Seed
	sums map[uint64]uint64
}

func newLedger() *ledger { return &ledger{seed: maphash.MakeSeed(), sums: map[uint64]uint64{}} }

// recordSum depends on every bit of a record in the engine's form.
func recordSum(key, value []byte) uint64 {
	var d xxhash.Digest
	d.ResetWithSeed(uint64(len(key)))
	_, _ = d.Write(key) // never fails
	_, _ = d.Write(value)
	return d.Sum64()
}

// count adds a record that was found.
func (l *ledger) count(key, value []byte) {
	sum := recordSum(key, value)
	l.sums[maphash.Bytes(l.seed, key)] = sum
	l.records++
	l.sum += sum
}

// entry is what a commit changes in the ledger: sum is 0 and gone set for a
// deletion.
type entry struct {
	key, sum uint64
	gone     bool
}

// plan is a commit that the ledger is to take once it is durable.
type plan struct {
	state
	entries []entry
}

// begin plans the next commit.
func (l *ledger) begin(revision int64) plan {
	p := plan{state: l.state}
	p.commit++
	if revision != 0 {
		p.revision = revision
	}
	return p
}

func (l *ledger) put(p *plan, key, value []byte) {
	e := entry{key: maphash.Bytes(l.seed, key), sum: recordSum(key, value)}
	had, ok := l.sums[e.key]
	if !ok {
		p.records++
	}
	p.sum += e.sum - had
	p.entries = append(p.entries, e)
}

func (l *ledger) remove(p *plan, key []byte) {
	e := entry{key: maphash.Bytes(l.seed, key), gone: true}
	had, ok := l.sums[e.key]
	if !ok {
		return
	}
	p.records--
	p.sum -= had
	p.entries = append(p.entries, e)
}

// take enters a commit that is durable.
func (l *ledger) take(p plan) {
	l.state = p.state
	for _, e := range p.entries {
		if e.gone {
			delete(l.sums, e.key)
			continue
		}
		l.sums[e.key] = e.sum
	}
}
