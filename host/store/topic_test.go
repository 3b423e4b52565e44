package store

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// A watch of one namespace or object is not woken by what happens to others.
func TestAWatchOfAPartSleepsWhileOthersAreBusy(t *testing.T) {
	t.Parallel()
	opts := Options{History: time.Minute}.withDefaults()
	r := newResource("configmaps", 1, &opts)
	rev := int64(1)
	happens := func(namespace, name string) {
		rev++
		for _, wake := range r.publish(rev, []Event{{Revision: rev, Key: Key{"configmaps", namespace, name}}}, time.Now()) {
			wake.all()
		}
	}
	watches := map[string]*topic{"namespace a": r.subscribe(namespaceTopic("a"), 1), "object a/x": r.subscribe(objectTopic(Key{"configmaps", "a", "x"}), 1)}
	for _, tt := range []struct {
		namespace, name string
		wakes           []string
	}{
		{"b", "x", nil},
		{"a", "y", []string{"namespace a"}},
		{"a", "x", []string{"namespace a", "object a/x"}},
		{"b", "y", nil},
	} {
		before := map[string]wake{}
		for name, w := range watches {
			before[name] = w.wake
		}
		happens(tt.namespace, tt.name)
		woken := map[string]bool{}
		for name := range watches {
			select {
			case <-before[name]:
				woken[name] = true
			default:
			}
		}
		want := map[string]bool{}
		for _, name := range tt.wakes {
			want[name] = true
		}
		for name := range watches {
			if woken[name] != want[name] {
				t.Errorf("%s/%s changes: the watch of %s is woken: %v, want %v", tt.namespace, tt.name, name, woken[name], want[name])
			}
		}
	}
	for _, w := range watches {
		r.unsubscribe(w)
	}
	if len(r.log.topics) != 0 {
		t.Errorf("%d topics are left", len(r.log.topics))
	}
}

// A crowd of watchers wakes, each of them, whoever comes late and whoever has left.
func TestACrowdOfWatchersWakes(t *testing.T) {
	t.Parallel()
	for _, watchers := range []int{crowd, 1000} {
		testWakes(t, watchers)
	}
}

func testWakes(t *testing.T, watchers int) {
	synctest.Test(t, func(t *testing.T) {
		w := newWake(watchers)
		gone := make(chan struct{})
		var woken, left atomic.Int64
		watch := func() {
			select {
			case <-w:
				w.next()
				woken.Add(1)
			case <-gone:
				left.Add(1)
			}
		}
		for range watchers {
			go watch()
		}
		synctest.Wait()
		close(gone)
		synctest.Wait()
		if got := left.Load(); got != int64(watchers) {
			t.Fatalf("%d have left, want %d", got, watchers)
		}
		gone = make(chan struct{})
		for range watchers {
			go watch()
		}
		synctest.Wait()
		if got := woken.Load(); got != 0 {
			t.Fatalf("%d are awake before anything happened", got)
		}
		w.all()
		for range watchers {
			go watch()
		}
		synctest.Wait()
		if got := woken.Load(); got != 2*int64(watchers) {
			t.Errorf("%d of %d are awake", got, 2*watchers)
		}
		if got := len(w); got != cap(w) {
			t.Errorf("%d tokens are left, want %d", got, cap(w))
		}
	})
}
