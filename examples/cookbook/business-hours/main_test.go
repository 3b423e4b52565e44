package main

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestOpen(t *testing.T) {
	t.Parallel()
	b := &businessHours{from: 8, till: 18}
	for _, tt := range []struct {
		at   string
		want bool
	}{
		{"2026-03-02T08:00:00Z", true},  // a Monday
		{"2026-03-02T07:59:59Z", false}, // too early
		{"2026-03-06T17:59:59Z", true},  // a Friday
		{"2026-03-06T18:00:00Z", false}, // too late
		{"2026-03-07T12:00:00Z", false}, // a Saturday
		{"2026-03-08T12:00:00Z", false}, // a Sunday
	} {
		at, err := time.Parse(time.RFC3339, tt.at)
		if err != nil {
			t.Fatal(err)
		}
		if got := b.open(at.UnixNano()); got != tt.want {
			t.Errorf("open(%s) = %v, want %v", tt.at, got, tt.want)
		}
	}
}

func TestBusinessHours(t *testing.T) {
	t.Parallel()
	monday := time.Date(2026, time.March, 2, 0, 0, 0, 0, time.UTC)
	policytest.Run(t, policytest.Table{
		Policy: "BusinessHours",
		Nodes:  []policytest.Node{{Name: "office", Labels: map[string]string{"office-hours-only": ""}}, {Name: "always"}},
		Cases: []policytest.Case{
			{
				Name: "at night", Now: monday.UnixNano(),
				Want: map[string]string{"office": "node takes pods in office hours only", "always": ""},
			},
			{
				Name: "at noon", Now: monday.Add(12 * time.Hour).UnixNano(),
				Want: map[string]string{"office": "", "always": ""},
			},
		},
	})
	policytest.Refuses(t, "BusinessHours", `{"from":25}`)
}
