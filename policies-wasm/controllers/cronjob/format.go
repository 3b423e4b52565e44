package cronjob

import (
	"errors"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
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

// inZone writes a time in RFC 3339, as clocks of the zone show it. (The package
// time would do it, for 40 KB more of wasm.)
func inZone(at int64, z zone) string {
	c, _ := z.find(at)
	if c.seconds == 0 {
		return pods.Time(at * pods.Second)
	}
	sign, minutes := "+", c.seconds/60
	if minutes < 0 {
		sign, minutes = "-", -minutes
	}
	return pods.Time((at + c.seconds) * pods.Second)[:len("2006-01-02T15:04:05")] + sign + two(minutes/60) + ":" + two(minutes%60)
}

func two(n int64) string {
	if n < 10 {
		return "0" + strconv.FormatInt(n, 10)
	}
	return strconv.FormatInt(n, 10)
}

// timestamp reads it, as seconds since 1970; 0 for what is none.
func timestamp(text string) int64 {
	if i := len(text) - len("+00:00"); i > 0 && (text[i] == '+' || text[i] == '-') && text[i+3] == ':' {
		hours, err := strconv.ParseInt(text[i+1:i+3], 10, 64)
		minutes, err2 := strconv.ParseInt(text[i+4:], 10, 64)
		at := timestamp(text[:i] + "Z")
		if err != nil || err2 != nil || at == 0 {
			return 0
		}
		if text[i] == '+' {
			return at - hours*3600 - minutes*60
		}
		return at + hours*3600 + minutes*60
	}
	return pods.Nanos(text) / pods.Second
}

// rfc1123 writes a time in UTC as in "Sun, 01 Mar 2026 10:00:00 +0000".
func rfc1123(at int64) string {
	t := time.Unix(at, 0).UTC()
	date := two(int64(t.Day())) + " " + t.Month().String()[:3] + " " + strconv.Itoa(t.Year())
	return t.Weekday().String()[:3] + ", " + date + " " + two(int64(t.Hour())) + ":" + two(int64(t.Minute())) + ":" + two(int64(t.Second())) + " +0000"
}
