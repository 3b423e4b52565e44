package pod

import "time"

// The pace of restarts and pulls, as Kubernetes has it.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 5 * time.Minute
	// A container that ran this long starts over with no delay.
	backoffForget = 10 * time.Minute
)

// Backoff is the delay after a failure: none at first, then 10 s doubling up
// to 5 min. The zero value has no delay.
type Backoff struct {
	Delay   time.Duration `json:"delay,omitempty"`
	Updated time.Time     `json:"updated,omitzero"`
}

// Until is when the next try is due after a failure at the time failed.
func (b Backoff) Until(failed time.Time) time.Time {
	if b.expired(failed) {
		return failed
	}
	return failed.Add(b.Delay)
}

// Next notes a try at the time now, after a failure at the time failed.
func (b *Backoff) Next(failed, now time.Time) {
	switch {
	case b.Delay == 0 || b.expired(failed):
		b.Delay = backoffFirst
	default:
		b.Delay = min(2*b.Delay, backoffMost)
	}
	b.Updated = now
}

func (b Backoff) expired(failed time.Time) bool {
	return failed.Sub(b.Updated) > backoffForget
}
