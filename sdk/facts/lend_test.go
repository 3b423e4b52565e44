package facts

import (
	"fmt"
	"os"
	"strconv"
	"testing"
)

// lentStrings is how many strings come and go; the campaign says more.
func lentStrings() int {
	if n, err := strconv.Atoi(os.Getenv("BERTH_CHURN_STRINGS")); err == nil {
		return n
	}
	return 200_000
}

// Strings of pods that were asked about come and go, and the table is no larger
// for it; rows keep theirs, and so does who kept a text.
func TestTheStringsOfAPodGoWithIt(t *testing.T) {
	t.Parallel()
	s := NewSymbols()
	zone := s.Intern("zone")
	var kept []string
	most, base := 0, s.bytes
	for i := range lentStrings() / 10 {
		s.Lend()
		for k := range 10 {
			if text := fmt.Sprintf("label-%d-%d", i, k); s.String(s.Intern(text)) != text {
				t.Fatalf("%s is another string", text)
			}
		}
		if s.Intern("zone") != zone {
			t.Fatal("a string that a row has got another symbol")
		}
		s.Lent()
		if i%1000 == 0 {
			kept = append(kept, s.String(s.Lookup(fmt.Sprintf("label-%d-7", i))))
		}
		most = max(most, len(s.slots)+len(s.places)+len(s.chunks))
	}
	s.takeBack()
	if s.bytes != base || most > 1000 || s.Lookup("zone") != zone {
		t.Errorf("%d bytes of strings instead of %d, at most %d entries", s.bytes, base, most)
	}
	for i, text := range kept {
		if want := fmt.Sprintf("label-%d-7", i*1000); text != want {
			t.Errorf("a text that was kept is %q, want %q", text, want)
		}
	}
}

func TestWhatARowHasOfAPodsStringsStays(t *testing.T) {
	t.Parallel()
	for _, of := range []string{"shared", "new"} {
		s := NewSymbols()
		s.Lend()
		shared := s.Intern("shared")
		s.Lent()
		row := s.Intern(of)
		s.Lend()
		s.Intern("another")
		s.Lent()
		s.takeBack()
		if s.Lookup(of) != row || s.String(row) != of || s.Lookup("shared") != shared || s.Lookup("another") != NoSymbol {
			t.Errorf("a row's %q is %d, %q", of, s.Lookup(of), s.String(row))
		}
	}
}

// A text that the author asks by is not known by a symbol that has gone.
func TestANameForgetsASymbolThatWasLent(t *testing.T) {
	t.Parallel()
	s := NewSymbols()
	s.Lend()
	s.Intern("team")
	s.Lent()
	const key = "team"
	if s.Lookup(key) == NoSymbol {
		t.Fatal("the pod's label is not known")
	}
	s.Lend()
	s.Intern("other")
	s.Lent()
	if got := s.Lookup(key); got != NoSymbol {
		t.Errorf("a label that no one has is symbol %d, %q", got, s.String(got))
	}
}
