package cycle

import (
	"fmt"
	"slices"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// partition divides the rows into parts: rows that are equal in its groups. What a
// policy that reads no others says of one row of a part, it says of all. Uniform
// machines are few parts, however many they are.
type partition struct {
	groups abi.Groups
	// labels are those that part rows where groups lacks them, by key; values holds
	// their columns.
	labels []abi.LabelDepends
	values []*labelColumn
	// of is the part of each slot, none where there is no row; next and prev link
	// the rows of a part.
	of, next, prev []int32
	parts          []part
	byHash         map[uint64]int32
	// rows is how many rows there are, live how many parts have some.
	rows, live int
	// idle are parts without rows, the oldest first. They are kept for a while,
	// since a pod that goes leaves a row as it was before the pod came.
	idle []int32
	// free are places for new parts.
	free []int32
	// touched tells which parts have lost or won rows, born which are new.
	touched, born journal
}

// part is the rows that are alike.
type part struct {
	hash  uint64
	first int32 // one of its slots, none if it has no rows
	size  int32
}

const none = int32(-1)

func newPartition(groups abi.Groups) *partition {
	return &partition{groups: groups, byHash: map[uint64]int32{}}
}

// hash is that of a row's part.
func (p *partition) hash(slot int32, hashes *snapshot.RowHashes) uint64 {
	h := hashes.Of(p.groups)
	for i, c := range p.values {
		h = splitmix(h ^ c.hash(slot, &p.labels[i]) + uint64(i) + 1)
	}
	return h
}

// reads says whether what changed in groups may take a row to another part.
func (p *partition) reads(groups abi.Groups) bool {
	return groups&p.groups != 0 || len(p.labels) > 0 && groups&(abi.NodeLabels|abi.NodeName) != 0
}

// is says whether the partition is by just these groups and labels.
func (p *partition) is(groups abi.Groups, labels []abi.LabelDepends) bool {
	return p.groups == groups && slices.EqualFunc(p.labels, labels, func(a, b abi.LabelDepends) bool {
		return a.Key == b.Key && a.Any == b.Any && slices.Equal(a.Values, b.Values)
	})
}

// join puts a row into the part of its hash.
func (p *partition) join(slot int32, hash uint64) {
	id, known := p.byHash[hash]
	if !known {
		id = p.newPart(hash)
	}
	at := &p.parts[id]
	p.of[slot], p.prev[slot], p.next[slot] = id, none, at.first
	if at.first != none {
		p.prev[at.first] = slot
	} else {
		p.live++
	}
	at.first = slot
	at.size++
	p.rows++
	p.touched.note(id)
}

func (p *partition) newPart(hash uint64) int32 {
	id := int32(len(p.parts))
	if n := len(p.free); n > 0 {
		id, p.free = p.free[n-1], p.free[:n-1]
	} else {
		p.parts = append(p.parts, part{})
	}
	p.parts[id] = part{hash: hash, first: none}
	p.byHash[hash] = id
	p.born.note(id)
	return id
}

// leave takes a slot out of its part, if it is in one.
func (p *partition) leave(slot int32) {
	id := p.of[slot]
	if id == none {
		return
	}
	at := &p.parts[id]
	if prev := p.prev[slot]; prev != none {
		p.next[prev] = p.next[slot]
	} else {
		at.first = p.next[slot]
	}
	if next := p.next[slot]; next != none {
		p.prev[next] = p.prev[slot]
	}
	p.of[slot] = none
	at.size--
	p.rows--
	p.touched.note(id)
	if at.size == 0 {
		p.live--
		p.idle = append(p.idle, id)
	}
}

// keptIdle is how many parts without rows are kept at least; idleShare is which share
// of those with rows may be kept where that is more. Each decision about a pod like no
// other passes over all places of parts, those of idle ones too.
const (
	keptIdle  = 1 << 8
	idleShare = 4
)

// tidy forgets the parts that have been without rows for longest.
func (p *partition) tidy() {
	most := max(keptIdle, p.live/idleShare)
	if len(p.idle) <= 2*most {
		return
	}
	// One that won rows again and lost them stands in the list more than once.
	slices.Reverse(p.idle)
	kept, seen := p.idle[:0], make(map[int32]bool, len(p.idle))
	for _, id := range p.idle {
		switch {
		case p.parts[id].size > 0 || seen[id]:
			continue
		case len(kept) < most:
			kept = append(kept, id)
		default:
			delete(p.byHash, p.parts[id].hash)
			p.free = append(p.free, id)
		}
		seen[id] = true
	}
	slices.Reverse(kept)
	p.idle = kept
}

// only is the one part that has rows, none if there are more.
func (p *partition) only() int32 {
	if p.live != 1 {
		return none
	}
	for _, id := range p.of {
		if id != none {
			return id
		}
	}
	return none
}

// members appends the rows of a part to a list.
func (p *partition) members(list []int32, id int32) []int32 {
	for slot := p.parts[id].first; slot != none; slot = p.next[slot] {
		list = append(list, slot)
	}
	return list
}

// end is one more than the highest slot that has a row.
func (p *partition) end() int {
	n := len(p.of)
	for n > 0 && p.of[n-1] == none {
		n--
	}
	return n
}

// grow makes room for n slots.
func (p *partition) grow(n int) {
	if len(p.of) < n {
		p.of, p.next, p.prev = grown(p.of, n, none), grown(p.next, n, none), grown(p.prev, n, none)
	}
}

// journal is a bounded list of parts to which something happened, with positions
// that never come again.
type journal struct {
	start uint64
	ids   []int32
}

// journalLength bounds it: who is further behind looks at everything anew.
const journalLength = 1 << 16

func (j *journal) note(id int32) {
	if len(j.ids) == journalLength {
		j.start += journalLength / 2
		j.ids = append(j.ids[:0], j.ids[journalLength/2:]...)
	}
	j.ids = append(j.ids, id)
}

func (j *journal) end() uint64 { return j.start + uint64(len(j.ids)) }

// since is what came after a position; ok is false where that is not known any more.
func (j *journal) since(at uint64) (ids []int32, ok bool) {
	if at < j.start {
		return nil, false
	}
	return j.ids[at-j.start:], true
}

// partitions are those that a Decider's policies need, kept in step with the log.
type partitions struct {
	// seq is the log's position up to which they stand.
	seq    uint64
	hashes []snapshot.RowHashes
	all    []*partition
	labels labelColumns
	// seen tells the values of labels that came by before.
	seen map[string]bool
}

func newPartitions() partitions {
	return partitions{labels: labelColumns{byKey: map[string]*labelColumn{}, seen: map[string]bool{}, few: fewValues}, seen: map[string]bool{}}
}

// maxPartitions bounds how many are kept: one for each set of groups that policies
// read, alone or together.
const maxPartitions = 64

// maxByLabels is how many partitions there may be for one more to be made for the sake
// of labels: beyond, rows are parted by all of them.
const maxByLabels = maxPartitions / 3

// byLabels is the partition by some groups and by labels for which there are columns;
// nil where it is not worth making: where there are too many, or where it is by values
// that came by for the first time, such as the name of the one node that a pod is for.
func (p *partitions) byLabels(groups abi.Groups, labels []abi.LabelDepends, log snapshot.Log) *partition {
	if known := p.find(groups, labels); known != nil {
		return known
	}
	if len(p.all) >= maxByLabels || !p.cameBefore(labels) {
		return nil
	}
	return p.by(groups, labels, log)
}

func (p *partitions) cameBefore(labels []abi.LabelDepends) bool {
	if !slices.ContainsFunc(labels, func(l abi.LabelDepends) bool { return len(l.Values) > 0 }) {
		return true
	}
	text := fmt.Sprint(labels)
	if p.seen[text] {
		return true
	}
	if len(p.seen) >= 16*maxLabels {
		clear(p.seen)
	}
	p.seen[text] = true
	return false
}

func (p *partitions) find(groups abi.Groups, labels []abi.LabelDepends) *partition {
	groups &= snapshot.RowGroups
	for _, known := range p.all {
		if known.is(groups, labels) {
			return known
		}
	}
	return nil
}

// by is the partition of the rows by some groups, and by labels for which there are
// columns.
func (p *partitions) by(groups abi.Groups, labels []abi.LabelDepends, log snapshot.Log) *partition {
	if known := p.find(groups, labels); known != nil {
		return known
	}
	made := newPartition(groups & snapshot.RowGroups)
	made.labels = labels
	for i := range labels {
		made.values = append(made.values, p.labels.byKey[labels[i].Key])
	}
	made.grow(int(log.Slots()))
	for slot := range log.Slots() {
		if log.Row(slot) != nil {
			made.join(slot, made.hash(slot, &p.hashes[slot]))
		}
	}
	p.all = append(p.all, made)
	return made
}

// follow takes in what has changed in the log.
func (p *partitions) follow(log snapshot.Log) {
	n := int(log.Slots())
	p.hashes = grown(p.hashes, n, snapshot.RowHashes{})
	p.labels.grow(n)
	for _, one := range p.all {
		one.grow(n)
	}
	deltas, ok := log.Since(p.seq)
	p.seq = log.Seq()
	if !ok {
		for slot := range int32(n) {
			p.put(log, slot, snapshot.RowGroups)
		}
	}
	for d := range deltas.All() {
		switch {
		case d.Kind > rowRemove:
		case d.Groups&abi.NodeGroups == abi.NodeGroups:
			p.put(log, d.Slot, snapshot.RowGroups)
		default:
			p.put(log, d.Slot, d.Groups)
		}
	}
	for _, one := range p.all {
		one.tidy()
	}
}

// put finds a slot's place in each partition after its row changed in groups.
func (p *partitions) put(log snapshot.Log, slot int32, groups abi.Groups) {
	row, hashes := log.Row(slot), &p.hashes[slot]
	if row != nil {
		row.Hash(hashes, groups)
	}
	if groups&(abi.NodeLabels|abi.NodeName) != 0 || row == nil {
		p.labels.put(slot, row)
	}
	for _, one := range p.all {
		if row == nil {
			one.leave(slot)
			continue
		}
		if one.of[slot] == none || one.reads(groups) {
			one.move(slot, one.hash(slot, hashes))
		}
	}
}

// move puts a row into the part of its hash, if it is not there yet.
func (p *partition) move(slot int32, hash uint64) {
	if id := p.of[slot]; id != none && p.parts[id].hash == hash {
		return
	}
	p.leave(slot)
	p.join(slot, hash)
}
