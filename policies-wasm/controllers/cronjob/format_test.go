package cronjob

import (
	"math/rand/v2"
	"testing"
	"time"
)

func TestTimesAreWrittenAsGoDoes(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		where, err := time.LoadLocation(zones[r.IntN(len(zones))])
		if err != nil {
			t.Fatal(err)
		}
		z := zoneFact(t, where)
		at := near(r, z)
		want := time.Unix(at, 0).In(where)
		if got := inZone(at, z); got != want.Format(time.RFC3339) {
			t.Fatalf("in %s: %s, want %s", where, got, want.Format(time.RFC3339))
		}
		if got := timestamp(inZone(at, z)); got != at {
			t.Fatalf("%s is read as %d, want %d", inZone(at, z), got, at)
		}
		if got := rfc1123(at); got != want.UTC().Format(time.RFC1123Z) {
			t.Fatalf("%s, want %s", got, want.UTC().Format(time.RFC1123Z))
		}
	}
}

func TestTextsThatAreNoTimes(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"", "Z", "+00:00", "soon", "2026-03-01", "2026-03-01T10:00:00", "2026-03-01T10:00:00+0a:00", "x+01:00", "2026-03-01T10:00:00+01:0x"} {
		if got := timestamp(text); got != 0 {
			t.Errorf("timestamp(%q) = %d, want 0", text, got)
		}
	}
}
