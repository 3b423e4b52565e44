package sdk

import "testing"

// What was looked up lately is known by where it lies: neither a part of it nor
// a text that has been added since may be taken for it.
func TestALookupIsThatOfTheText(t *testing.T) {
	t.Parallel()
	s := newSymbols()
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
