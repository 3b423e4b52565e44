package cronjob

import (
	"errors"
	"time"

	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
)

// many missed runs are told of.
const many = 100

// due is the last time that was missed, never if none was, and whether it was
// one of too many.
func (c *cronJob) due() (due int64, tooMany bool, err error) {
	since := c.since()
	if c.deadline >= 0 {
		since = max(since, c.now-c.deadline)
	}
	due, missed, err := c.last(since)
	return due, missed > many, err
}

// since is the last run, or else when the CronJob came to be.
func (c *cronJob) since() int64 {
	switch {
	case c.begins != 0:
		return c.begins
	case c.scheduled != 0:
		return c.scheduled
	}
	return c.created
}

var errNoTime = errors.New("time difference between two schedules is less than 1 second")

// last is the last time of the schedule between another and now, never if there
// is none, and about how many there are: as many as the first two of them, in
// steps as far from each other as these, would have with them.
func (c *cronJob) last(since int64) (last, missed int64, err error) {
	first := c.schedule.next(since)
	if c.now < first && first != never {
		return never, 0, nil
	}
	second := c.schedule.next(first)
	if c.now < second && second != never {
		return first, 0, nil
	}
	step := second - first
	if step < 1 || second == never {
		return never, 0, errNoTime
	}
	missed = (c.now-first)/step + 1
	return c.lastAfter(first + (missed-2)*step), missed, nil
}

// lastAfter is the last time of the schedule between another and now. It takes
// 100 steps, and halves what is left then.
func (c *cronJob) lastAfter(since int64) int64 {
	last := int64(never)
	for range 100 {
		next := c.schedule.next(since)
		if next > c.now {
			return last
		}
		last, since = next, next
	}
	for low, high := since, c.now; ; {
		if high-low <= 1 {
			return last
		}
		middle := (low + high) / 2
		if next := c.schedule.next(middle); next <= c.now {
			low, last = middle, next
		} else {
			high = middle
		}
	}
}

// askAgain is for the first time after now that the schedule names.
func (c *cronJob) askAgain() {
	since := c.since()
	last, missed, err := c.last(since)
	switch {
	case last != never:
		since = last
	case err != nil || missed > 0:
		since = c.now
	}
	next := c.schedule.next(since)
	if next == never {
		return
	}
	c.out.RequeueAfter = time.Duration(max(1, next*pods.Second+late-c.Now))
	c.why("The next Job is due at " + pods.Time(next*pods.Second) + ".")
}
