package guest_test

import (
	"fmt"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

// busy refuses nodes whose pods ask for most of their CPU, by the column.
type busy struct {
	rows  *row.Table
	taken guest.ReasonID
}

func (b *busy) PreFilter(*facts.Pod) guest.Answer { return guest.AskRows }

func (b *busy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	has, asked := b.rows.Allocatable.MilliCPU, b.rows.Requested.MilliCPU
	for i, slot := range slots {
		verdicts[i] = 0
		if asked[slot]*10 > has[slot]*9 {
			verdicts[i] = b.taken
		}
	}
}

// A policy of the full face is asked about many rows at once, and reads columns.
func ExampleRegister() {
	guest.Register(guest.Policy{
		Name: "NotBusy", Kind: guest.KindPredicate, Reads: abi.NodeCapacity | abi.NodeUsage,
		Open: func(s *guest.Setup) (any, error) {
			return &busy{s.Rows, s.Reasons.ID(guest.Reject("the node is busy"))}, s.Config.OnlyKeys()
		},
	})
	m, err := abi.ReadManifest(guest.Manifest())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(m.Find("NotBusy").Reads)
	// Output: [node.capacity node.usage]
}
