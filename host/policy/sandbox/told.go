package sandbox

import (
	"context"
	"errors"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// none is no row of a guest.
const none = int32(-1)

// told is what a guest of scope row was told of. It knows the rows that it was
// asked about and no others, and of rows that are equal in what it reads only one,
// by slots of its own. So its memory is by how much nodes differ, and not by how
// many there are.
type told struct {
	// rowOf is the guest's slot for each of the host's; none where that is not known.
	rowOf []int32
	// rows are by the guest's slot.
	rows   []toldRow
	byHash map[uint64]int32
	// spare are the guest's slots that no slot of the host needs now, the oldest
	// first; what they hold may come again.
	spare []int32
}

type toldRow struct {
	hash  uint64
	users int32 // slots of the host
	// spare says that it is listed as such.
	spare bool
}

// keptSpare is how many spare rows a guest keeps before it uses one anew.
const keptSpare = 1 << 10

func (t *told) reset() {
	*t = told{byHash: map[uint64]int32{}}
}

// forget takes down that a slot has changed.
func (t *told) forget(slot int32) {
	if int(slot) >= len(t.rowOf) || t.rowOf[slot] == none {
		return
	}
	row := t.rowOf[slot]
	t.rowOf[slot] = none
	if t.rows[row].users--; t.rows[row].users == 0 && !t.rows[row].spare {
		t.rows[row].spare = true
		t.spare = append(t.spare, row)
	}
}

// follow takes down what has changed in groups since the guest was last asked.
func (t *told) follow(deltas snapshot.Deltas, known bool, groups abi.Groups) {
	if !known {
		for slot := range t.rowOf {
			t.forget(int32(slot))
		}
		return
	}
	for d := range deltas.All() {
		if d.Kind <= snapshot.RowRemove && (d.Groups&groups != 0 || d.Groups&abi.NodeGroups == abi.NodeGroups) {
			t.forget(d.Slot)
		}
	}
}

// at is the guest's row for a slot of the host, none where that is not known.
func (t *told) at(slot int32) int32 {
	if int(slot) < len(t.rowOf) {
		return t.rowOf[slot]
	}
	return none
}

// find is the guest's row for a slot of the host, and whether the guest has to be
// told of it first.
func (t *told) find(slot int32, row *snapshot.Row, groups abi.Groups) (at int32, isNew bool) {
	if at = t.at(slot); at != none {
		return at, false
	}
	for int(slot) >= len(t.rowOf) {
		t.rowOf = append(t.rowOf, none)
	}
	var hashes snapshot.RowHashes
	row.Hash(&hashes, groups)
	hash := hashes.Of(groups)
	at, known := t.byHash[hash]
	if !known {
		at = t.place()
		t.rows[at].hash = hash
		t.byHash[hash] = at
	}
	t.rows[at].users++
	t.rowOf[slot] = at
	return at, !known
}

// place finds room for another row.
func (t *told) place() int32 {
	for len(t.spare) > keptSpare {
		at := t.spare[0]
		t.spare = t.spare[1:]
		t.rows[at].spare = false
		if t.rows[at].users == 0 {
			delete(t.byHash, t.rows[at].hash)
			return at
		}
	}
	t.rows = append(t.rows, toldRow{})
	return int32(len(t.rows) - 1)
}

// toldOnDemand says whether its guests are told of the rows that they are asked
// about, and not of the cluster.
func (p *Program) toldOnDemand() bool { return p.info.Cacheable() }

// Warm is Follow, and tells the guest of the rows at once, so that no pod waits
// for that.
func (s *Sandbox) Warm(ctx context.Context, log snapshot.Log) error {
	if err := s.Follow(ctx, log); err != nil || !s.toldOnDemand() {
		return err
	}
	var rows []int32
	for slot := range log.Slots() {
		if log.Row(slot) != nil {
			rows = append(rows, slot)
		}
	}
	if news, err := s.tell(rows); err != nil || !news {
		return err
	}
	return s.collect()
}

// tell has the guest know some rows, whose places it leaves in asked, and says
// whether the guest had to be told of any.
func (s *Sandbox) tell(rows []int32) (any bool, err error) {
	s.asked, s.askedOf, s.news = s.asked[:0], append(s.askedOf[:0], rows...), s.news[:0]
	for _, slot := range rows {
		if at := s.told.at(slot); at != none {
			s.asked = append(s.asked, at)
			continue
		}
		row := s.about.rows.Row(slot)
		at, isNew := s.told.find(slot, row, s.info.Reads)
		s.asked = append(s.asked, at)
		if isNew {
			s.news = append(s.news, snapshot.Delta{Seq: s.sent + 1 + uint64(len(s.news)), Kind: snapshot.RowUpsert, Slot: at, Groups: abi.NodeGroups, Row: row})
		}
	}
	defer clear(s.news)
	s.prepared = true
	return len(s.news) > 0, s.apply(s.news)
}

// input writes the rows from one place of a question to another, which the guest
// then knows. The places of all rows are looked up once a question, and again
// after the guest was built anew.
func (s *Sandbox) input(ctx context.Context, rows []int32, from, to int) ([]byte, error) {
	if !s.toldOnDemand() {
		return s.encoder.Rows(rows[from:to]), nil
	}
	if !s.prepared {
		if err := s.know(ctx, rows); err != nil {
			return nil, err
		}
	}
	return s.encoder.Rows(s.asked[from:to]), nil
}

// know is tell in the midst of a cycle, after which the guest has to be told of the
// pod again. Where a new one had to be built for that, it is told of the rows again.
func (s *Sandbox) know(ctx context.Context, rows []int32) error {
	for range 2 {
		switch err := s.learn(ctx, rows); {
		case errors.Is(err, errWorn):
			if err := s.reopen(ctx, err); err != nil {
				return err
			}
		case err != nil:
			return err
		case s.prepared:
			return nil
		}
	}
	return s.fail(errWorn) // a new one is not worn
}

func (s *Sandbox) learn(ctx context.Context, rows []int32) error {
	if any, err := s.tell(rows); err != nil || !any {
		return err
	}
	answer, err := s.pod(ctx)
	if err == nil && answer.Ask != abi.AskRows {
		err = s.fail(errors.New("it is asked again about a pod, and answers otherwise"))
	}
	return err
}

// questions are questions by the guest's own slots.
func (s *Sandbox) questions(ctx context.Context, all []framework.WhatIf) ([]framework.WhatIf, error) {
	if !s.toldOnDemand() {
		return all, nil
	}
	rows := make([]int32, 0, len(all))
	for i := range all {
		rows = append(rows, all[i].Row)
	}
	if err := s.know(ctx, rows); err != nil {
		return nil, err
	}
	own := make([]framework.WhatIf, len(all))
	for i := range all {
		own[i].Row = s.told.rowOf[all[i].Row]
		for _, d := range all[i].Deltas {
			if d.Slot == all[i].Row {
				d.Slot = own[i].Row
				own[i].Deltas = append(own[i].Deltas, d)
			}
		}
	}
	return own, nil
}

// place is the host's slot that a guest was at when it failed, -1 if it does not say.
func (s *Sandbox) place(err error) int32 {
	at := placeOf(err)
	if !s.toldOnDemand() {
		return at
	}
	if k := slices.Index(s.asked, at); k >= 0 {
		return s.askedOf[k]
	}
	return none
}

// collect has the guest collect its garbage: loading leaves as much of it as it
// leaves rows, and the first decision shall not have to.
func (s *Sandbox) collect() error {
	if !s.module.Has(engine.FuncIdle) {
		return nil
	}
	if _, err := s.instance.Call(engine.FuncIdle, nil, engine.IdleBudget(s.instance.MemoryBytes(), s.slots)); err != nil {
		return s.fail(err)
	}
	s.wear.young = s.instance.MemoryBytes()
	return nil
}
