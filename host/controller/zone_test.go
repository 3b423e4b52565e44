package controller

import (
	"encoding/json"
	"testing"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

func TestTheFactZone(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)
	f := newFacts(nil, nil, func() time.Time { return now })
	at := func(name string) int64 {
		since, err := time.Parse(time.RFC3339, name)
		if err != nil {
			t.Fatal(err)
		}
		return since.Unix()
	}
	tests := []struct {
		name, schedule string
		zone           *string
		begins         [][2]int64 // nil: the fact is absent
	}{
		{"a zone with summer time", "@hourly", ptr.To("Europe/Berlin"), [][2]int64{
			{at("2025-01-01T00:00:00Z"), 3600}, {at("2025-03-30T01:00:00Z"), 7200}, {at("2025-10-26T01:00:00Z"), 3600},
		}},
		{"a zone without", "@hourly", ptr.To("Asia/Kolkata"), [][2]int64{{at("2025-01-01T00:00:00Z"), 19800}}},
		{"the schedule's own", "TZ=Asia/Kolkata 0 * * * *", nil, [][2]int64{{at("2025-01-01T00:00:00Z"), 19800}}},
		{"its other spelling, which goes first", "CRON_TZ=Asia/Kolkata @hourly", ptr.To("Europe/Berlin"), [][2]int64{{at("2025-01-01T00:00:00Z"), 19800}}},
		{"an unknown one", "@hourly", ptr.To("Mars/Olympus"), nil},
		{"one that leads out of the database", "@hourly", ptr.To("../etc"), nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			o := &batchv1.CronJob{
				ObjectMeta: metav1.ObjectMeta{CreationTimestamp: metav1.NewTime(now.AddDate(-1, 0, 0))},
				Spec:       batchv1.CronJobSpec{Schedule: tt.schedule, TimeZone: tt.zone},
			}
			for range 2 { // made, and remembered
				value, err := f.scheduleZone(o)
				if err != nil || (value == nil) != (tt.begins == nil) {
					t.Fatalf("zone is %s, %v", value, err)
				}
				var got [][2]int64
				if value != nil && json.Unmarshal(value, &got) != nil || len(got) < len(tt.begins) {
					t.Fatalf("zone is %s, want %v at least", value, tt.begins)
				}
				for i, want := range tt.begins {
					if got[i] != want {
						t.Errorf("from the %d. time on %v, want %v", i, got[i], want)
					}
				}
				if n := len(got); n > 1 && got[n-1][0] < at("2037-06-01T00:00:00Z") {
					t.Errorf("the last change is of %s, want one in 2037", time.Unix(got[n-1][0], 0))
				}
			}
		})
	}
}

// TestOffsetsAreGos looks at each day of a quarter of a century.
func TestOffsetsAreGos(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Africa/Casablanca", "Pacific/Apia", "UTC"} {
		where, err := time.LoadLocation(name)
		if err != nil {
			t.Fatal(err)
		}
		list := offsets(where, 2008, 2045)
		for at, i := time.Unix(list[0][0], 0).In(where), 0; at.Year() < 2045; at = at.Add(12 * time.Hour) {
			for i+1 < len(list) && list[i+1][0] <= at.Unix() {
				i++
			}
			if _, seconds := at.Zone(); int64(seconds) != list[i][1] {
				t.Fatalf("%s: at %s clocks are %d seconds before UTC, want %d", name, at, list[i][1], seconds)
			}
		}
	}
}
