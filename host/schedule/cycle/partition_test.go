package cycle

import (
	"math/rand/v2"
	"testing"
)

// Over any number of moves, rows share a part just if they share a hash, parts that
// were without rows for long are used anew, and whoever follows the journals hears
// of each change, or that he does not.
func TestAPartitionPartsByHash(t *testing.T) {
	t.Parallel()
	const slots = 300
	random := rand.New(rand.NewPCG(7, 8))
	p, at := newPartition(0), make([]uint64, slots) // 0: no row
	p.grow(slots)
	sizes, followed, lost := map[int32]int32{}, uint64(0), 0
	for step := range 200_000 {
		slot := int32(random.IntN(slots))
		switch hash := uint64(1 + random.IntN(1<<random.IntN(20))); {
		case random.IntN(10) == 0:
			p.leave(slot)
			at[slot] = 0
		default:
			p.move(slot, hash)
			at[slot] = hash
		}
		if step%100 == 0 {
			p.tidy()
		}
		if step%9999 == 0 || step < 2000 && step%7 == 0 {
			touched, known := p.touched.since(followed)
			followed = p.touched.end()
			for _, id := range touched {
				sizes[id] = p.parts[id].size
			}
			if !known {
				lost++
				clear(sizes)
				for id := range p.parts {
					sizes[int32(id)] = p.parts[id].size
				}
			}
			holds(t, p, at, sizes)
		}
	}
	if _, known := p.touched.since(0); known {
		t.Error("the journal never ends")
	}
	if most := 3*keptIdle + 2*slots; len(p.parts) > most {
		t.Errorf("%d parts are kept for %d rows, want %d at most", len(p.parts), slots, most)
	}
}

func holds(t *testing.T, p *partition, at []uint64, sizes map[int32]int32) {
	t.Helper()
	byHash, rows := map[uint64]int32{}, 0
	for slot, hash := range at {
		id := p.of[slot]
		if (hash == 0) != (id == none) {
			t.Fatalf("slot %d of hash %d is in part %d", slot, hash, id)
		}
		if hash == 0 {
			continue
		}
		rows++
		if known, ok := byHash[hash]; ok && known != id {
			t.Fatalf("hash %d is in parts %d and %d", hash, known, id)
		}
		byHash[hash] = id
		if p.parts[id].hash != hash {
			t.Fatalf("slot %d of hash %d is in a part of hash %d", slot, hash, p.parts[id].hash)
		}
	}
	if p.rows != rows || p.live != len(byHash) {
		t.Fatalf("%d rows in %d parts, want %d in %d", p.rows, p.live, rows, len(byHash))
	}
	for _, id := range byHash {
		members := p.members(nil, id)
		if int(p.parts[id].size) != len(members) || sizes[id] != p.parts[id].size {
			t.Fatalf("part %d has %d members, says %d, and the journal %d", id, len(members), p.parts[id].size, sizes[id])
		}
		for _, slot := range members {
			if p.of[slot] != id {
				t.Fatalf("part %d lists slot %d of part %d", id, slot, p.of[slot])
			}
		}
	}
}
