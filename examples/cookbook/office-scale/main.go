// Command office-scale gives a Deployment more replicas within office hours than
// outside of them. It says how many by annotations:
//
//	example.test/office-replicas: "10"
//	example.test/replicas: "2"
package main

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Annotations of a Deployment: its replicas within and outside of office hours.
const (
	Office  = "example.test/office-replicas"
	Outside = "example.test/replicas"
)

const (
	minute = 60 * 1_000_000_000
	hour   = 60 * minute
	day    = 24 * hour
)

// officeScale are the hours of the days from Monday to Friday, and by how many
// minutes local time is ahead of UTC.
type officeScale struct{ from, till, ahead int64 }

func (s *officeScale) Configure(c sdk.Config) (err error) {
	if s.from, err = c.Int("from", 0, 24, 8); err != nil {
		return err
	}
	if s.till, err = c.Int("till", 0, 24, 18); err != nil {
		return err
	}
	if s.ahead, err = c.Int("minutesAheadOfUTC", -14*60, 14*60, 0); err != nil {
		return err
	}
	return c.OnlyKeys("from", "till", "minutesAheadOfUTC")
}

func (s *officeScale) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	d := &r.Parent
	within, ok := d.Annotations.Get(Office)
	outside, too := d.Annotations.Get(Outside)
	if d.Deleted != 0 || !ok || !too {
		return out, nil
	}
	open, change := s.open(r.Now)
	annotation, text := Outside, outside
	if open {
		annotation, text = Office, within
	}
	replicas, err := strconv.ParseUint(text, 10, 31)
	if err != nil {
		out.Why = []string{"the annotation " + annotation + " is no number of replicas"}
		return out, nil
	}
	out.RequeueAfter = time.Duration(change)
	if have, ok := d.Field("spec.replicas").Number(); !ok || uint64(have) != replicas {
		out.Patch = []reconcile.Patch{{UID: d.UID, Subresource: "scale", Patch: `{"spec":{"replicas":` + text + `}}`}}
		out.Events = []reconcile.Event{{Type: "Normal", Reason: "OfficeHours", Message: "Scaled to " + text}}
	}
	return out, nil
}

// open says whether it is within office hours, and in how many nanoseconds to
// look again. 1970 began on a Thursday.
func (s *officeScale) open(now int64) (open bool, change int64) {
	local := now + s.ahead*minute
	weekday, at := (local/day+4)%7, local%day // 0 is Sunday
	switch from, till := s.from*hour, s.till*hour; {
	case at < from:
		return false, from - at
	case at < till:
		return weekday != 0 && weekday != 6, till - at
	}
	return false, day - at
}

func init() {
	sdk.Module("office-scale", "0.1.0")
	sdk.Controller("OfficeScale", &officeScale{},
		reconcile.Kind{APIVersion: "apps/v1", Kind: "Deployment", Fields: []string{"spec.replicas"}, Writes: []string{"patch"}}, nil,
		sdk.Describe("Gives Deployments other replicas within office hours than outside of them."))
}

func main() {}
