package row

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
)

// asking is a predicate's view of rows that have more extended resources than
// there are columns for.
func asking(resources int) (*Node, []string) {
	r := New(abi.NodeCapacity | abi.NodeUsage)
	r.named = true
	names := make([]string, resources)
	for k := range names {
		names[k] = fmt.Sprint("example.test/r", k)
	}
	for slot := range int32(200) {
		r.ensure(slot)
		r.Live[slot] = true
		r.Allocatable.set(slot, facts.Amounts{MilliCPU: int64(slot)})
		for k, name := range names {
			if int(slot)%(k+1) == 0 {
				r.AllocatableScalars[slot] = append(r.AllocatableScalars[slot], facts.Scalar{Name: r.Symbols.Intern(name), Value: int64(1000*k) + int64(slot)})
			}
		}
		r.followScalars(slot)
	}
	return &Node{rows: r}, names
}

// However a block lies, and however many resources there are, a node has of each
// what its row says.
func TestANodeHasWhatItsRowSays(t *testing.T) {
	t.Parallel()
	node, names := asking(12)
	for _, slots := range [][]int32{{0, 1, 2, 3, 4, 5}, {3, 2, 9}, {7}, {10, 11, 12, 13, 13}, {198, 199}} {
		node.begin(slots)
		for i, slot := range slots {
			node.slot, node.i = slot, uint32(i)
			if got := node.Allocatable("cpu"); got != int64(slot) {
				t.Errorf("row %d of %v has %d of cpu, want %d", slot, slots, got, slot)
			}
			for k, name := range names {
				want := int64(0)
				if int(slot)%(k+1) == 0 {
					want = int64(1000*k) + int64(slot)
				}
				if got := node.Allocatable(name); got != want {
					t.Errorf("row %d of %v has %d of %s, want %d", slot, slots, got, name, want)
				}
				if got := node.Requested(name); got != 0 {
					t.Errorf("pods of row %d ask %d of %s, want 0", slot, got, name)
				}
			}
		}
	}
}

func TestAColumnOfAScalarFollowsItsRow(t *testing.T) {
	t.Parallel()
	node, names := asking(2)
	r := node.rows
	r.AllocatableScalars[4] = []facts.Scalar{{Name: r.Symbols.Intern(names[0]), Value: 77}}
	r.followScalars(4)
	r.Clear(6)
	slots := []int32{4, 5, 6}
	node.begin(slots)
	for i, want := range [][2]int64{{77, 0}, {5, 0}, {0, 0}} {
		node.slot, node.i = slots[i], uint32(i)
		if got := [2]int64{node.Allocatable(names[0]), node.Allocatable(names[1])}; got != want {
			t.Errorf("row %d has %v, want %v", slots[i], got, want)
		}
	}
}
