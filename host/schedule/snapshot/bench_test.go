package snapshot

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
)

func filled(n int) *history {
	h := newHistory(0)
	for range n {
		h.next()
		h.tell(Delta{Kind: RowUpsert, Groups: abi.NodeUsage}, rowBytes)
		h.tell(Delta{Kind: PodPlaced}, 0)
		h.note(&Ref{}, 1, came, 0)
	}
	return &h
}

func BenchmarkHistoryAdd(b *testing.B) {
	b.ReportAllocs()
	h, ref := newHistory(0), &Ref{}
	for b.Loop() {
		h.next()
		h.tell(Delta{Kind: RowUpsert, Groups: abi.NodeUsage}, rowBytes)
		h.tell(Delta{Kind: PodPlaced}, 0)
		h.note(ref, 1, came, 0)
	}
}

func BenchmarkHistorySince(b *testing.B) {
	h := filled(20_000)
	for _, behind := range []uint64{1, 10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d behind", behind), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, ok := h.since(h.seq - behind); !ok {
					b.Fatal("not there")
				}
			}
		})
	}
}
