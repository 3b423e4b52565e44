package cronjob

import (
	"errors"
	"sort"
	"time"

	"github.com/berth-dev/berth/sdk"
)

// zone is how clocks go: since when they are how many seconds before UTC. None
// at all is UTC.
type zone []change

type change struct{ since, seconds int64 }

// readZone reads the fact abi.FactZone.
func readZone(fact sdk.Config) (z zone, err error) {
	for _, pair := range fact.Items() {
		n := pair.Items()
		if len(n) != 2 {
			return nil, errors.New("the fact zone is no list of pairs")
		}
		since, _ := n[0].Number()
		seconds, _ := n[1].Number()
		z = append(z, change{int64(since), int64(seconds)})
	}
	return z, nil
}

// find returns the change that counts at a time, and when the next does.
func (z zone) find(at int64) (c change, end int64) {
	const forever = 1 << 62
	i := sort.Search(len(z), func(i int) bool { return z[i].since > at })
	if end = forever; i < len(z) {
		end = z[i].since
	}
	switch {
	case len(z) == 0:
		return c, end
	case i == 0: // before all that is known
		return change{-forever, z[0].seconds}, end
	}
	return z[i-1], end
}

// clock shows a time, given in seconds since 1970, as if it were UTC.
func (z zone) clock(at int64) time.Time {
	c, _ := z.find(at)
	return time.Unix(at+c.seconds, 0).UTC()
}

// when is the time at which clocks show this. Of what they show twice, or never,
// it takes what Go's time.Date does.
func (z zone) when(shown time.Time) int64 {
	at := shown.Unix()
	c, end := z.find(at)
	if c.seconds == 0 {
		return at
	}
	if utc := at - c.seconds; utc < c.since || utc >= end {
		c, _ = z.find(utc)
	}
	return at - c.seconds
}
