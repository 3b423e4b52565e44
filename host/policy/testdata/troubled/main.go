// Command troubled holds policies that do wrong on one node, pod or object, and
// say and count things, for the tests of how a host tells of it.
package main

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/reconcile"
	"github.com/berth-dev/berth/sdk/row"
)

var (
	_     = sdk.NewCounter("never", "Never counted.")
	asked = sdk.NewCounter("rows_looked_at", "Rows that were looked at.\nBy \"Trips\" and \\ its like.")
)

// trip does what a node's or pod's label "trap" says.
func trip(how string) {
	switch how {
	case "panic":
		var none []int
		sink = none[len(how)]
	case "spin":
		for n := 1; ; n++ {
			sink += n * n
		}
	case "deep":
		sink = deeper(len(how))
	}
}

var sink int

func deeper(n int) int { return deeper(n+1) + deeper(n+2) }

type trips struct{}

func (trips) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	asked.Add(1)
	trip(node.Label("trap"))
	if node.Label("keep-out") != "" {
		return sdk.Reject("the node wants nobody")
	}
	return sdk.Admit
}

func (trips) Score(_ *sdk.Pod, node *sdk.Node) int64 {
	asked.Add(2)
	trip(node.Label("trap"))
	return 1
}

// batch is a predicate that does not say what it is at.
type batch struct{ rows *row.Table }

func (b *batch) PreFilter(*sdk.Pod) guest.Answer { return guest.AskRows }

func (b *batch) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for i, slot := range slots {
		how, _ := b.rows.Labels(slot).Get("trap")
		trip(how)
		verdicts[i] = 0
	}
}

// notes follows rows, and does wrong while it is told of one.
type notes struct{ trips }

func (notes) RowAdded(int32)   { trip("panic") }
func (notes) RowRemoved(int32) {}

type checks struct{}

func (checks) Check(_ int64, pod *gate.Pod) gate.Readiness {
	trip(pod.Label("trap"))
	return gate.Readiness{Status: gate.True, Reason: "Fine"}
}

type controller struct{}

func (controller) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
	how, _ := r.Parent.Field("spec.trap").Text()
	trip(how)
	return reconcile.Result{}, nil
}

// talks says a line at each level about each pod.
type talks struct{ times int64 }

func (t *talks) Configure(c sdk.Config) error {
	if err := c.OnlyKeys("times"); err != nil {
		return err
	}
	times, err := c.Int("times", 1, 1000, 1)
	t.times = times
	return err
}

func (t *talks) Filter(pod *sdk.Pod, _ *sdk.Node) sdk.Verdict {
	for range t.times {
		sdk.Log(sdk.LevelDebug, "whisper")
		sdk.Log(sdk.LevelInfo, "talk")
		sdk.Log(sdk.LevelWarn, "warn")
		sdk.Log(sdk.LevelError, "shout")
	}
	return sdk.Admit
}

func init() {
	sdk.Module("troubled", "1")
	sdk.Predicate("Trips", trips{})
	sdk.Predicate("TripsSet", trips{}, sdk.Reads(sdk.NodeLabels|sdk.Time))
	sdk.Predicate("TripsTold", notes{})
	sdk.Priority("TripsScoring", trips{})
	guest.Register(guest.Policy{Name: "TripsBatch", Kind: guest.KindPredicate, Reads: sdk.NodeLabels,
		Open: func(s *guest.Setup) (any, error) { return &batch{s.Rows}, nil }})
	sdk.Gate("TripsGate", checks{}, []string{"troubled"})
	sdk.Controller("TripsReconciling", controller{}, reconcile.Kind{APIVersion: "apps/v1", Kind: "ReplicaSet", Fields: []string{"spec.trap"}}, nil)
	sdk.Predicate("Talks", &talks{})
}

func main() {}
