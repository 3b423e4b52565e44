package chunkqueue_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/schedule/chunkqueue"
)

// model is what a list must be like, without pieces.
type model struct {
	list  []int
	holds []int // what each element takes
}

// TestAListIsLikeASliceThatForgets adds and drops at random, and asks all that
// can be asked.
func TestAListIsLikeASliceThatForgets(t *testing.T) {
	t.Parallel()
	const length, each = 8, 10
	r := rand.New(rand.NewPCG(1, 2))
	l, m := chunkqueue.New[int](length+3, each), model{}
	last := 0
	for step := range 5000 {
		switch r.IntN(12) {
		case 0:
			want := []int(nil)
			if len(m.list) > length {
				want = m.list[:length]
			}
			if diff := cmp.Diff(want, l.Oldest()); diff != "" {
				t.Fatalf("step %d: the oldest piece (-want +got):\n%s", step, diff)
			}
			if diff := cmp.Diff(want, l.Drop()); diff != "" {
				t.Fatalf("step %d: dropped (-want +got):\n%s", step, diff)
			}
			m.list, m.holds = m.list[len(want):], m.holds[len(want):]
		case 1:
			l.Hold(5)
			if n := len(m.holds); n > 0 {
				m.holds[n-1] += 5
			}
		default:
			last += r.IntN(3) // some lie at one place
			l.Add(last, step)
			m.list, m.holds = append(m.list, last), append(m.holds, step)
		}
		m.compare(t, r, &l, last, (len(m.list)+length-1)/length*length*each)
	}
}

func (m *model) compare(t *testing.T, r *rand.Rand, l *chunkqueue.List[int], last, places int) {
	t.Helper()
	bytes := places
	for _, n := range m.holds {
		bytes += n
	}
	if l.Len() != len(m.list) || l.Bytes() != bytes {
		t.Fatalf("%d elements of %d bytes, want %d of %d", l.Len(), l.Bytes(), len(m.list), bytes)
	}
	if len(m.list) == 0 {
		return
	}
	if i := r.IntN(len(m.list)); *l.At(i) != m.list[i] {
		t.Fatalf("element %d is %d, want %d", i, *l.At(i), m.list[i])
	}
	at := last - r.IntN(40)
	past := func(v *int) bool { return *v > at }
	from := l.Search(past)
	if want := slices.IndexFunc(append(m.list, at+1), func(v int) bool { return v > at }); from != want {
		t.Fatalf("the first past %d is element %d, want %d", at, from, want)
	}
	same(t, l.From(from), m.list[from:])
	same(t, l.From(0).From(past), m.list[from:])
}

// same holds all that a part tells against a slice.
func same(t *testing.T, p chunkqueue.Part[int], want []int) {
	t.Helper()
	var all, back, pieced []int
	for v := range p.All() {
		all = append(all, *v)
	}
	for v := range p.Backward() {
		back = append(back, *v)
	}
	for piece := range p.Pieces() {
		if len(piece) == 0 {
			t.Fatal("an empty piece")
		}
		pieced = append(pieced, piece...)
	}
	slices.Reverse(back)
	for name, got := range map[string][]int{"all": all, "backward": back, "pieces": pieced, "whole": p.Whole()} {
		if !slices.Equal(got, want) {
			t.Fatalf("%s = %v, want %v", name, got, want)
		}
	}
	if p.Len() != len(want) {
		t.Fatalf("the part has %d elements, want %d", p.Len(), len(want))
	}
}

func TestAWalkEndsWhenItIsToldTo(t *testing.T) {
	t.Parallel()
	l := chunkqueue.New[int](4, 1)
	for i := range 10 {
		l.Add(i, 0)
	}
	p := l.From(1)
	for _, stop := range []int{1, 2, 5, 9} {
		var forth, back []int
		for v := range p.All() {
			if forth = append(forth, *v); *v == stop {
				break
			}
		}
		for v := range p.Backward() {
			if back = append(back, *v); *v == stop {
				break
			}
		}
		n := 0
		for range p.Pieces() {
			if n++; n == 2 {
				break
			}
		}
		if forth[len(forth)-1] != stop || back[len(back)-1] != stop || n != 2 {
			t.Errorf("stopped at %d: forth %v, back %v, %d pieces", stop, forth, back, n)
		}
	}
}

// TestAPartIsReadWhileTheListGoesOn: the race detector watches, and what is
// added and dropped meanwhile shows nowhere.
func TestAPartIsReadWhileTheListGoesOn(t *testing.T) {
	t.Parallel()
	l := chunkqueue.New[int](16, 8)
	var readers sync.WaitGroup
	dropped := 0
	for i := range 2000 {
		l.Add(i, 0)
		if i%7 == 0 {
			p, from, to := l.From(0), dropped, i+1
			readers.Go(func() {
				next := from
				for v := range p.All() {
					if *v != next {
						t.Errorf("read %d, want %d", *v, next)
						return
					}
					next++
				}
				whole := p.Whole()
				if next != to || len(whole) != to-from || len(append(whole, -1)) != to-from+1 {
					t.Errorf("read up to %d, %d in all, want %d and %d", next, len(whole), to, to-from)
				}
			})
		}
		if i%40 == 39 {
			dropped += len(l.Drop())
		}
	}
	readers.Wait()
	for i := range l.Len() {
		if *l.At(i) != dropped+i {
			t.Fatalf("element %d is %d after readers appended to their parts", i, *l.At(i))
		}
	}
}

func BenchmarkAdd(b *testing.B) {
	b.ReportAllocs()
	l := chunkqueue.New[[9]uint64](1024, 72)
	for b.Loop() {
		l.Add([9]uint64{1}, 10)
		if l.Bytes() > 16<<20 {
			l.Drop()
		}
	}
}

func BenchmarkSearch(b *testing.B) {
	l := chunkqueue.New[[9]uint64](1024, 72)
	for i := range uint64(20_000) {
		l.Add([9]uint64{i}, 0)
	}
	for _, behind := range []uint64{1, 10, 100, 1_000, 10_000} {
		b.Run(fmt.Sprintf("%d behind", behind), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if p := l.From(l.Search(func(v *[9]uint64) bool { return v[0] > 20_000-behind })); p.Len() == 0 {
					b.Fatal("nothing is there")
				}
			}
		})
	}
}
