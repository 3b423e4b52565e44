package sandbox

import (
	"errors"
	"fmt"
	"testing"
	"time"
)

// What fails about one parent, however often, is asked about others as before; what
// fails about several is not.
func TestAControllerIsQuarantinedForSeveralParents(t *testing.T) {
	t.Parallel()
	turns := 0
	h, now, trouble := NewHealth(func() { turns++ }), time.Unix(1e9, 0), errors.New("unreachable executed")
	for i := range 100 {
		h.failed(now.Add(time.Duration(i)*time.Millisecond), trouble, "one")
	}
	if quarantined, _ := h.State(); quarantined || !h.allow(now) || h.Failures() != 100 {
		t.Errorf("after 100 failures about one parent: quarantined %v, %d failures", quarantined, h.Failures())
	}
	for i := range 4 {
		h.failed(now, trouble, fmt.Sprint("another ", i))
	}
	if quarantined, last := h.State(); !quarantined || turns != 1 || last == nil {
		t.Errorf("after failures about five parents: quarantined %v, told %d times, last %v", quarantined, turns, last)
	}
	nameless := NewHealth(func() {})
	for range 5 {
		nameless.failed(now, trouble, "")
	}
	if quarantined, _ := nameless.State(); !quarantined {
		t.Error("a policy that is asked about no parent is not quarantined after five failures")
	}
}
