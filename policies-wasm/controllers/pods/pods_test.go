package pods

import (
	"testing"
	"time"
)

func TestTimes(t *testing.T) {
	t.Parallel()
	for year := 1970; year < 2101; year += 3 {
		for _, month := range []time.Month{1, 2, 3, 12} {
			at := time.Date(year, month, 28, 23, 59, 58, 0, time.UTC)
			if got := Nanos(at.Format(time.RFC3339)); got != at.UnixNano() {
				t.Errorf("Nanos(%v) = %d, want %d", at, got, at.UnixNano())
			}
			if got := Time(at.UnixNano()); got != at.Format(time.RFC3339) {
				t.Errorf("Time(%v) = %s", at, got)
			}
		}
	}
	for _, text := range []string{"", "2026-03-01", "2026-03-01T12:00:00+02:00", "1772366400", "20x6-03-01T12:00:00Z"} {
		if got := Nanos(text); got != 0 {
			t.Errorf("Nanos(%q) = %d, want 0", text, got)
		}
	}
}
