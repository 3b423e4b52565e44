package cronjob

import (
	"errors"
	"strings"
	"time"
)

// parseWithZone reads a schedule that may begin with TZ= or CRON_TZ=, whose zone
// the host has found, if it is known.
func parseWithZone(text string, z zone, known bool) (*schedule, error) {
	for _, prefix := range [...]string{"TZ=", "CRON_TZ="} {
		rest, ok := strings.CutPrefix(text, prefix)
		if !ok {
			continue
		}
		name, schedule, ok := strings.Cut(rest, " ")
		if !ok {
			return nil, errors.New("nothing follows its time zone")
		}
		if !known {
			return nil, errors.New("provided bad location " + name + ": unknown time zone " + name)
		}
		return parse(strings.TrimSpace(schedule), z)
	}
	return parse(text, z)
}

// inZone writes a time in RFC 3339, as clocks of the zone show it.
func inZone(at int64, z zone) string {
	c, _ := z.find(at)
	return time.Unix(at, 0).In(time.FixedZone("", int(c.seconds))).Format(time.RFC3339)
}

// timestamp reads it, as seconds since 1970; 0 for what is none.
func timestamp(text string) int64 {
	t, err := time.Parse(time.RFC3339, text)
	if err != nil {
		return 0
	}
	return t.Unix()
}

func rfc1123(at int64) string { return time.Unix(at, 0).UTC().Format(time.RFC1123Z) }
