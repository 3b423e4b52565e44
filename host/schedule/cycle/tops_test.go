package cycle

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// Whatever has changed, the tops lead to the row that a look at all rows finds.
func TestTopsLeadToTheRowThatALookAtAllFinds(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(3, 4))
	for _, n := range []int{0, 1, 63, 64, 65, 1000} {
		c := &class{part: newPartition(0)}
		c.part.grow(n)
		for range 300 {
			before := c.part.touched.end()
			for range random.IntN(9) {
				if n == 0 {
					break
				}
				slot := int32(random.IntN(n))
				c.part.leave(slot)
				if random.IntN(4) > 0 {
					c.part.join(slot, uint64(random.IntN(n)))
				}
			}
			c.grow(len(c.part.parts))
			changed, _ := c.part.touched.since(before)
			for _, id := range changed {
				c.size[id] = c.part.parts[id].size
				if c.by[id], c.total[id] = admitted, int64(random.IntN(3)); c.size[id] == 0 || random.IntN(4) == 0 {
					c.total[id] = out
				}
			}
			c.retop(changed, random.IntN(20) == 0)
			f := &field{}
			f.start(c)
			seed := random.Uint64()
			byTops := f.best(seed)
			f.take()
			if diff := cmp.Diff(f.best(seed), byTops, cmp.AllowUnexported(choice{})); diff != "" {
				t.Fatalf("of %d rows (-all +tops):\n%s", n, diff)
			}
			if byTops.slot >= 0 && f.ownTotal[byTops.slot] != byTops.total {
				t.Fatalf("slot %d was picked, which has %d, not %d", byTops.slot, f.ownTotal[byTops.slot], byTops.total)
			}
		}
	}
}

// Each of the tied rows is picked as often as any other, be they many or few.
func TestTiedRowsAreDrawnEvenly(t *testing.T) {
	t.Parallel()
	for _, tied := range []int{3, 100} {
		c := &class{part: newPartition(0)}
		c.part.grow(200)
		for slot := range int32(200) {
			c.part.join(slot, uint64(slot%7)) // 7 parts of either kind
			if int(slot) < tied {
				c.part.leave(slot)
				c.part.join(slot, 100+uint64(slot%2))
			}
		}
		c.grow(len(c.part.parts))
		for id := range c.part.parts {
			if c.size[id] = c.part.parts[id].size; c.part.parts[id].hash >= 100 {
				c.by[id], c.total[id] = admitted, 5
			}
		}
		c.retop(nil, true)
		f, times := &field{}, make([]int, 200)
		f.start(c)
		const each = 1000
		for seed := range uint64(tied * each) {
			times[f.best(seed*7919).slot]++
		}
		for slot, n := range times[:tied] {
			if n < each*8/10 || n > each*12/10 {
				t.Errorf("of %d tied rows, row %d was picked %d times of %d, want about %d", tied, slot, n, tied*each, each)
			}
		}
	}
}
