package nft

import (
	"testing"

	"github.com/berth-dev/berth/nodeagent/forward"
)

func TestPinnedFrontsHideServices(t *testing.T) {
	t.Parallel()
	n := newNode(t, 3)
	pin := func(owner string, fronts map[forward.Front]*forward.Entry) {
		t.Helper()
		if err := n.Pin(owner, fronts); err != nil {
			t.Fatal(err)
		}
	}
	answers := func(pod int) { t.Helper(); sees(t, n.outside, nodeIP+":30000", bridgeIP, podIP(pod).String()) }
	at := func(pod int) map[forward.Front]*forward.Entry {
		return map[forward.Front]*forward.Entry{nodePort(30000): {Inside: always(to(pod))}}
	}
	pin("early", at(1))
	n.must(t, change(at(0)), true)
	answers(1)
	pin("late", at(2))
	pin("early", nil) // who has it no more
	answers(2)
	pin("late", nil)
	answers(0)
	pin("late", at(2))
	n.must(t, forward.Change{Fronts: map[forward.Front]*forward.Entry{nodePort(30000): nil}}, false)
	answers(2)
	pin("late", nil)
	refused(t, n.outside, nodeIP+":30000")
}
