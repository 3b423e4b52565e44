package cronjob

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// never is later than any time.
const never = 1 << 62

// schedule says when jobs are due: at each minute that all its fields allow, or
// every so many seconds.
type schedule struct {
	zone                              zone
	minute, hour, day, month, weekday set
	every                             int64
}

// set is of small numbers. It may be a star, which for the two kinds of days
// means that it does not matter.
type set struct {
	bits uint64
	star bool
}

func (s set) has(n int) bool { return s.bits>>uint(n)&1 == 1 }

// named are the schedules that have names.
var named = [...][2]string{
	{"@yearly", "0 0 1 1 *"}, {"@annually", "0 0 1 1 *"}, {"@monthly", "0 0 1 * *"}, {"@weekly", "0 0 * * 0"},
	{"@daily", "0 0 * * *"}, {"@midnight", "0 0 * * *"}, {"@hourly", "0 * * * *"},
}

// parse reads a schedule that says nothing of its zone.
func parse(text string, z zone) (*schedule, error) {
	if rest, ok := strings.CutPrefix(text, "@every "); ok {
		d, err := time.ParseDuration(rest)
		return &schedule{zone: z, every: max(int64(d/time.Second), 1)}, err
	}
	for _, n := range named {
		if text == n[0] {
			text = n[1]
		}
	}
	parts := strings.Fields(text)
	if len(parts) != len(fields) {
		return nil, errors.New("want 5 fields, found " + strconv.Itoa(len(parts)))
	}
	s := &schedule{zone: z}
	for i, to := range [...]*set{&s.minute, &s.hour, &s.day, &s.month, &s.weekday} {
		var err error
		if *to, err = fields[i].parse(parts[i]); err != nil {
			return nil, errors.New(fields[i].name + " " + strconv.Quote(parts[i]) + ": " + err.Error())
		}
	}
	return s, nil
}

// field is what may stand in a place of a schedule.
type field struct {
	name      string
	low, high int
	// names are words of three letters for the numbers from low on.
	names string
}

var fields = [...]field{
	{"minute", 0, 59, ""}, {"hour", 0, 23, ""}, {"day of the month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"}, {"day of the week", 0, 6, "sunmontuewedthufrisat"},
}

// parse reads a list such as "1-5,7,10-59/20".
func (f *field) parse(text string) (s set, err error) {
	for part := range strings.SplitSeq(text, ",") {
		if part == "" {
			continue
		}
		one, err := f.part(part)
		if err != nil {
			return s, err
		}
		s.bits, s.star = s.bits|one.bits, s.star || one.star
	}
	return s, nil
}

func (f *field) part(text string) (s set, err error) {
	span, every, steps := strings.Cut(text, "/")
	from, to, ranges := strings.Cut(span, "-")
	first, last, step := f.low, f.high, 1
	if s.star = from == "*" || from == "?"; !s.star {
		if first, err = f.number(from); err != nil {
			return s, err
		}
		switch {
		case ranges:
			last, err = f.number(to)
		case !steps: // 5/10 goes on to the end
			last = first
		}
		if err != nil {
			return s, err
		}
	}
	if steps {
		if step, err = strconv.Atoi(every); err != nil || step < 1 {
			return s, errors.New("a step is a number from 1 on")
		}
		// A star with steps and no range is "from the first on"; with a range
		// Kubernetes passes the range over.
		s.star = s.star && step == 1
	}
	if first < f.low || last > f.high || first > last {
		return s, errors.New("want numbers from " + strconv.Itoa(f.low) + " to " + strconv.Itoa(f.high) + ", the lower first")
	}
	for i := first; i <= last; i += min(step, 64) {
		s.bits |= 1 << uint(i)
	}
	return s, nil
}

func (f *field) number(text string) (int, error) {
	if at := strings.Index(f.names, strings.ToLower(text)); at >= 0 && len(text) == 3 && at%3 == 0 {
		return f.low + at/3, nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || text[0] == '-' {
		return 0, errors.New("no number")
	}
	return n, nil
}

// next is the first time after another that the schedule names, in seconds since
// 1970; never if there is none within five years.
func (s *schedule) next(after int64) int64 {
	if after == never {
		return never
	}
	if s.every > 0 {
		return after + s.every
	}
	h := hand{zone: s.zone}
	h.set(after + 1)
	for last := h.shows.Year() + 5; h.shows.Year() <= last; {
		if s.toMonth(&h) && s.toDay(&h) && s.toHour(&h) && s.toMinute(&h) && h.toFull() {
			return h.at
		}
	}
	return never
}

// hand is what goes forward until the schedule likes what it shows: each step
// ends true where it does, and false where the steps before must look again.
type hand struct {
	zone  zone
	at    int64
	shows time.Time
	// moved: the smaller units are at their beginning.
	moved bool
}

func (h *hand) set(at int64) { h.at, h.shows = at, h.zone.clock(at) }

// show goes to where clocks show this.
func (h *hand) show(t time.Time) { h.set(h.zone.when(t)) }

// begin goes to the beginning of a unit, the first time that it goes anywhere.
func (h *hand) begin(day, hour int) {
	if !h.moved {
		h.moved = true
		h.show(time.Date(h.shows.Year(), h.shows.Month(), day, hour, 0, 0, 0, time.UTC))
	}
}

func (s *schedule) toMonth(h *hand) bool {
	for !s.month.has(int(h.shows.Month())) {
		h.begin(1, 0)
		h.show(h.shows.AddDate(0, 1, 0))
		if h.shows.Month() == time.January {
			return false
		}
	}
	return true
}

func (s *schedule) toDay(h *hand) bool {
	for !s.likes(h.shows) {
		h.begin(h.shows.Day(), 0)
		was := h.at
		if h.show(h.shows.AddDate(0, 0, 1)); h.at <= was {
			h.set(was + 24*3600) // a zone left a day out: Apia did in 2011
		}
		// Where clocks are changed at midnight, it is 1 or 23 o'clock now.
		if hour := int64(h.shows.Hour()); hour > 12 {
			h.set(h.at + (24-hour)*3600)
		} else {
			h.set(h.at - hour*3600)
		}
		if h.shows.Day() == 1 {
			return false
		}
	}
	return true
}

// likes tells whether the day is one of the schedule: by both kinds of days where
// one of them does not matter, else by either.
func (s *schedule) likes(t time.Time) bool {
	day, weekday := s.day.has(t.Day()), s.weekday.has(int(t.Weekday()))
	if s.day.star || s.weekday.star {
		return day && weekday
	}
	return day || weekday
}

func (s *schedule) toHour(h *hand) bool {
	for !s.hour.has(h.shows.Hour()) {
		h.begin(h.shows.Day(), h.shows.Hour())
		h.set(h.at + 3600)
		if h.shows.Hour() == 0 {
			return false
		}
	}
	return true
}

func (s *schedule) toMinute(h *hand) bool {
	for !s.minute.has(h.shows.Minute()) {
		h.moved = true
		h.set(h.at - h.at%60 + 60)
		if h.shows.Minute() == 0 {
			return false
		}
	}
	return true
}

// toFull goes to the next full minute.
func (h *hand) toFull() bool {
	if h.shows.Second() == 0 {
		return true
	}
	h.moved = true
	h.set(h.at + int64(60-h.shows.Second()))
	return false
}
