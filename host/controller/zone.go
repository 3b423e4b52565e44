package controller

import (
	"encoding/json"
	"strings"
	"time"
	_ "time/tzdata" // for machines without

	"github.com/berth-dev/berth/host/store"
)

// zoneAhead is for how many years the fact "zone" goes on: a schedule such as
// each 29th of February is looked for five years ahead, and then once more.
const zoneAhead = 12

// zoneKey is what the fact is of.
type zoneKey struct {
	name     string
	from, to int
}

// scheduleZone is the fact "zone" of an object with a schedule: nil where its time zone
// is unknown.
func (f *facts) scheduleZone(o store.Object) (json.RawMessage, error) {
	key := zoneKey{zoneOf(o), f.now().Year(), f.now().Year() + zoneAhead}
	if created := o.GetCreationTimestamp(); !created.IsZero() {
		key.from = min(key.from, created.UTC().Year())
	}
	if was, ok := f.made.Get(key); ok {
		return was.(json.RawMessage), nil
	}
	where, err := time.LoadLocation(key.name)
	if err != nil {
		return nil, nil //nolint:nilerr // that is what an absent fact says
	}
	value, err := json.Marshal(offsets(where, key.from, key.to))
	if err == nil {
		f.made.Add(key, json.RawMessage(value))
	}
	return value, err
}

// zoneOf is the name of the zone that a schedule begins with, or that
// spec.timeZone has; where neither is, the one that this process is in.
func zoneOf(o store.Object) string {
	schedule := textAt(o, "spec.schedule")
	for _, prefix := range []string{"TZ=", "CRON_TZ="} {
		if rest, ok := strings.CutPrefix(schedule, prefix); ok {
			name, _, _ := strings.Cut(rest, " ")
			return name
		}
	}
	if name := textAt(o, "spec.timeZone"); name != "" {
		return name
	}
	return "Local"
}

// offsets are since when, in seconds since 1970, clocks of a zone are so many
// seconds before UTC, from one year to another.
func offsets(where *time.Location, from, to int) (list [][2]int64) {
	at := time.Date(from, time.January, 1, 0, 0, 0, 0, time.UTC).In(where)
	for end := time.Date(to, time.January, 1, 0, 0, 0, 0, time.UTC); at.Before(end); {
		if _, seconds := at.Zone(); len(list) == 0 || list[len(list)-1][1] != int64(seconds) {
			list = append(list, [2]int64{at.Unix(), int64(seconds)})
		}
		_, next := at.ZoneBounds()
		switch {
		case next.IsZero():
			return list
		case !next.After(at): // as Go has it on the last day of a leap year
			next = at.Add(24 * time.Hour)
		}
		at = next
	}
	return list
}
