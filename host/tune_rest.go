package host

import (
	"context"
	"runtime/debug"
	"runtime/metrics"
	"time"
)

const (
	// maxGarbage bounds what garbagePercent lets lie: four times a heap of
	// 700 MiB would be most of three GiB.
	maxGarbage = 1 << 30
	// leastGarbage is what it takes for a collection to be worth it on a host
	// that rests.
	leastGarbage = 64 << 20
	// resting is how much a host that does next to nothing allocates between two
	// looks.
	resting  = 32 << 20
	lookEach = 10 * time.Second
)

// heap is what Go's runtime says of its memory, in bytes.
type heap struct {
	live      uint64 // after the last collection
	objects   uint64 // live and garbage
	free      uint64 // neither, and not given back to the system
	allocated uint64 // since the process began
}

func readHeap() heap {
	samples := []metrics.Sample{
		{Name: "/gc/heap/live:bytes"}, {Name: "/memory/classes/heap/objects:bytes"},
		{Name: "/memory/classes/heap/free:bytes"}, {Name: "/gc/heap/allocs:bytes"},
	}
	metrics.Read(samples)
	return heap{samples[0].Value.Uint64(), samples[1].Value.Uint64(), samples[2].Value.Uint64(), samples[3].Value.Uint64()}
}

// garbage is how many percent of what is alive may lie as garbage.
func (h heap) garbage() int {
	if h.live == 0 {
		return garbagePercent
	}
	return int(min(garbagePercent, max(100, maxGarbage*100/h.live)))
}

// lies says whether a host that has rested since was keeps memory that it could
// give back: Go itself collects only as more is allocated.
func (h heap) lies(was heap) bool {
	kept := h.free
	if h.objects > h.live {
		kept += h.objects - h.live
	}
	return h.allocated-was.allocated < resting && kept > max(leastGarbage, h.live/2)
}

// rest keeps garbage within bounds while the host works, and gives memory back
// when it rests.
func rest(ctx context.Context) {
	tick := time.NewTicker(lookEach)
	defer tick.Stop()
	was, percent := readHeap(), garbagePercent
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		is := readHeap()
		if is.lies(was) {
			debug.FreeOSMemory()
			is = readHeap()
		}
		if want := is.garbage(); want != percent {
			debug.SetGCPercent(want)
			percent = want
		}
		was = is
	}
}
