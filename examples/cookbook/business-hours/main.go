// Command business-hours lets pods of a class onto nodes of a label only within
// office hours, in UTC. The time is the cycle's, which the host passes in: a
// guest has no clock of its own.
package main

import "github.com/berth-dev/berth/sdk"

const (
	hour = 3600 * 1_000_000_000
	day  = 24 * hour
)

type businessHours struct {
	label      string
	from, till int64
}

func (b *businessHours) Configure(c sdk.Config) (err error) {
	b.label = c.String("label", "office-hours-only")
	if b.from, err = c.Int("from", 0, 24, 8); err != nil {
		return err
	}
	if b.till, err = c.Int("till", 0, 24, 18); err != nil {
		return err
	}
	return c.OnlyKeys("label", "from", "till")
}

// open says whether it is a weekday between from and till. 1970 began on a Thursday.
func (b *businessHours) open(now int64) bool {
	weekday := (now/day + 4) % 7 // 0 is Sunday
	at := now % day / hour
	return weekday != 0 && weekday != 6 && at >= b.from && at < b.till
}

func (b *businessHours) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if !node.HasLabel(b.label) || b.open(pod.Now) {
		return sdk.Admit
	}
	return sdk.RejectFinal("node takes pods in office hours only")
}

func init() {
	sdk.Predicate("BusinessHours", &businessHours{}, sdk.Reads(sdk.Time|sdk.NodeLabels),
		sdk.Describe("Nodes with a label take pods in office hours only."))
}

func main() {}
