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
		c := &class{}
		c.grow(n)
		f := &field{}
		for range 300 {
			var changed []int32
			for range random.IntN(5) {
				if n == 0 {
					break
				}
				slot := int32(random.IntN(n))
				changed = append(changed, slot)
				c.by[slot], c.total[slot] = admitted, int64(random.IntN(3))
				if random.IntN(4) == 0 {
					c.by[slot], c.total[slot] = empty, out
				}
			}
			c.retop(changed, random.IntN(20) == 0)
			f.start(c)
			seed, rows := random.Uint64(), 0
			if diff := cmp.Diff(pick(c.total, seed), f.best(seed), cmp.AllowUnexported(choice{})); diff != "" {
				t.Fatalf("of %d rows (-all +tops):\n%s", n, diff)
			}
			for _, by := range c.by {
				if by != empty {
					rows++
				}
			}
			for _, top := range c.tops {
				rows -= int(top.rows)
			}
			if rows != 0 {
				t.Fatalf("of %d rows, the tops miss %d", n, rows)
			}
		}
	}
}
