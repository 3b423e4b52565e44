package host

import "testing"

func TestGarbageIsBoundedByWhatItComesTo(t *testing.T) {
	t.Parallel()
	for live, want := range map[uint64]int{0: 400, 100 << 20: 400, 512 << 20: 200, 4 << 30: 100} {
		if got := (heap{live: live}).garbage(); got != want {
			t.Errorf("with %d MiB alive garbage may be %d %%, want %d", live>>20, got, want)
		}
	}
}

func TestAHostThatRestsGivesMemoryBack(t *testing.T) {
	t.Parallel()
	const mib = 1 << 20
	was := heap{allocated: 1000 * mib}
	for name, c := range map[string]struct {
		is   heap
		want bool
	}{
		"after churn":                 {heap{live: 700 * mib, objects: 2600 * mib, free: 100 * mib, allocated: 1001 * mib}, true},
		"after a peak":                {heap{live: 100 * mib, objects: 100 * mib, free: 900 * mib, allocated: 1001 * mib}, true},
		"at work":                     {heap{live: 700 * mib, objects: 2600 * mib, allocated: 1100 * mib}, false},
		"with nothing to give":        {heap{live: 700 * mib, objects: 800 * mib, free: 100 * mib, allocated: 1001 * mib}, false},
		"with little, and small":      {heap{live: 20 * mib, objects: 60 * mib, allocated: 1001 * mib}, false},
		"while it is being collected": {heap{live: 700 * mib, objects: 650 * mib, allocated: 1001 * mib}, false},
	} {
		if got := c.is.lies(was); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

func TestTheRuntimeTellsOfItsHeap(t *testing.T) {
	t.Parallel()
	if h := readHeap(); h.objects == 0 || h.allocated == 0 {
		t.Errorf("the runtime says %+v", h)
	}
}
