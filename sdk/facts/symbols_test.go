package facts

import (
	"fmt"
	"strings"
	"testing"
)

// What was looked up lately is known by where it lies: neither a part of it nor
// a text that has been added since may be taken for it.
func TestALookupIsThatOfTheText(t *testing.T) {
	t.Parallel()
	s := NewSymbols()
	text := "zone.example.test"
	part := text[:4]
	if got := s.Lookup(text); got != NoSymbol {
		t.Fatalf("Lookup(%s) = %d before there is any", text, got)
	}
	whole := s.Intern(text)
	for range 2 {
		if got := s.Lookup(text); got != whole {
			t.Errorf("Lookup(%s) = %d, want %d", text, got, whole)
		}
		if got := s.Lookup(part); got != NoSymbol {
			t.Errorf("Lookup(%s) = %d, want none", part, got)
		}
	}
	if of := s.Intern(part); s.Lookup(part) != of || s.Lookup(text) != whole {
		t.Errorf("Lookup(%s) = %d, want %d", part, s.Lookup(part), of)
	}
	for i := range 300 { // the table grows
		s.Intern(string(rune('a'+i%26)) + text[:i%len(text)])
	}
	if got := s.Lookup(text); got != whole {
		t.Errorf("Lookup(%s) = %d in a larger table, want %d", text, got, whole)
	}
}

func TestSymbols(t *testing.T) {
	t.Parallel()
	s := NewSymbols()
	if s.Intern("") != EmptySymbol || s.Lookup("x") != NoSymbol {
		t.Error("the empty string and an unknown one have the wrong symbols")
	}
	long := strings.Repeat("l", 3*chunkSize)
	first := s.Intern(long)
	seen := map[Symbol]string{}
	for i := range 5000 {
		text := fmt.Sprint("text-", i)
		seen[s.Intern(text)] = text
	}
	for sym, text := range seen {
		if s.String(sym) != text || s.Intern(text) != sym {
			t.Fatalf("symbol %d is %q, want %q", sym, s.String(sym), text)
		}
	}
	if len(seen) != 5000 || s.String(first) != long {
		t.Errorf("%d symbols for 5000 texts", len(seen))
	}
}
