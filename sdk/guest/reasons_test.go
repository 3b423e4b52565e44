package guest

import (
	"fmt"
	"strings"
	"testing"
)

func TestReasonsEndAt255(t *testing.T) {
	t.Parallel()
	r := newReasons()
	for i := range 1000 {
		r.ID(Reject(fmt.Sprint("reason ", i)))
	}
	if len(r.table) != 256 || r.ID(Reject("reason 3")) != 4 {
		t.Errorf("%d reasons, reason 3 is %d", len(r.table), r.ID(Reject("reason 3")))
	}
	if id := r.ID(Reject("one more")); id != 255 || !strings.Contains(r.Get(id).Reason(), "further") {
		t.Errorf("one more is %d, %q", id, r.Get(id).Reason())
	}
	if r.ID(Admit) != 0 {
		t.Error("Admit is not 0")
	}
	if r.ID(Reject("reason 9")) == r.ID(RejectFinal("reason 9")) {
		t.Error("a reason and its final form are one")
	}
}
