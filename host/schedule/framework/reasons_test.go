package framework

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

func TestReasonsAreSharedAndBounded(t *testing.T) {
	t.Parallel()
	r := NewReasons(10)
	first := r.Intern(Reason{Policy: "a", Text: "no"})
	if first == 0 || r.Intern(Reason{Policy: "a", Text: "no"}) != first || r.Intern(Reason{Policy: "b", Text: "no"}) == first {
		t.Error("a reason has not one number")
	}
	for i := range 10_000 {
		id := r.Intern(Reason{Policy: fmt.Sprint("p", i%100), Text: fmt.Sprint("reason ", i)})
		if r.Get(id).Text == "" {
			t.Fatalf("reason %d has no text", id)
		}
	}
	if r.Len() > 21 {
		t.Errorf("the table grew to %d, want at most twice its limit", r.Len())
	}
	long := NewReasons(0)
	if got := long.Get(long.Intern(Reason{Text: strings.Repeat("x", 1<<20)})).Text; len(got) != MaxReasonText {
		t.Errorf("a text of %d bytes was taken", len(got))
	}
	if long.Get(1<<31).Text != "" {
		t.Error("a number that is not there has a text")
	}
}

// What a guest says comes to terminals, which it must not steer.
func TestAReasonIsPlainText(t *testing.T) {
	t.Parallel()
	r := NewReasons(0)
	for said, want := range map[string]string{
		"no GPU: 3 → 0":                 "no GPU: 3 → 0",
		"\x1b[2J\x1b]0;owned\x07\r\nok": "?[2J?]0;owned?  ok",
		"a\tb\u202ec\u009b31m":          "a b?c?31m",
		"\xffno":                        "no",
		"\n":                            "refused by p",
	} {
		id := r.Intern(Reason{Policy: "p", Text: said})
		if got := r.Get(id).Text; got != want || r.Intern(Reason{Policy: "p", Text: said}) != id {
			t.Errorf("the reason %q is %q, want %q, once", said, got, want)
		}
	}
}

func TestReasonsAsideLeaveTheLiveOnesTheirRoom(t *testing.T) {
	t.Parallel()
	live := NewReasons(10)
	known := live.Intern(Reason{Policy: "a", Text: "no"})
	aside := live.Aside()
	if aside.Intern(Reason{Policy: "a", Text: "no"}) != known || aside.Get(known).Text != "no" {
		t.Error("what a live policy says has another number aside")
	}
	for i := range 1000 {
		id := aside.Intern(Reason{Policy: "plan", Text: fmt.Sprint("reason ", i)})
		if got := live.Get(id); got.Policy != "plan" || got != aside.Get(id) {
			t.Fatalf("reason %d is %+v in the live table, and %+v aside", id, got, aside.Get(id))
		}
	}
	if live.Len() != 2 || aside.Len() > 21 {
		t.Errorf("%d reasons in the live table and %d aside, want 2, and twice the limit at most", live.Len(), aside.Len())
	}
	if got := live.Get(live.Intern(Reason{Policy: "a", Text: "neither"})).Text; got != "neither" {
		t.Errorf("the live table has no room left: %q", got)
	}
	if aside.Aside() != aside || aside.Get(aside.base+5000) != (Reason{}) {
		t.Error("a table aside has one aside, or a number that is not there a text")
	}
}

func TestReasonsMayBeReadWhileTheyGrow(t *testing.T) {
	t.Parallel()
	r := NewReasons(0)
	var g sync.WaitGroup
	for w := range 4 {
		g.Go(func() {
			for i := range 500 {
				text := fmt.Sprint(w, " ", i)
				if got := r.Get(r.Intern(Reason{Text: text})).Text; got != text {
					t.Errorf("got %q, want %q", got, text)
				}
			}
		})
	}
	g.Wait()
}
