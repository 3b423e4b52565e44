package host

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/controller"
	questions "github.com/berth-dev/berth/host/controller/record"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/store"
)

// drive is a guest with what its driver is to do.
type drive struct {
	driveKey
	guest *sandbox.Controller
	// live is the guest that a canary is compared with.
	live *sandbox.Controller
}

// driveKey is what a driver is kept by: the same program may act as several
// accounts, and be on trial beside itself. Who decides begins anew when a canary
// comes or goes, since parents change hands.
type driveKey struct {
	program [32]byte
	account v1alpha1.ServiceAccountReference
	role    role
	trial   *trial.Trial
}

type role int

const (
	decides role = iota
	canary
	shadow
)

// drivesOf are the guests of a set: of those that are the same, one. Those on
// trial come last: they are compared with the others.
func drivesOf(set *policy.Set) (all []drive) {
	trials := set.ControllerTrials()
	seen := map[driveKey]bool{}
	for _, guest := range set.Controllers() {
		one := drive{driveKey: driveKey{program: guest.Identity(), account: guest.ServiceAccount()}, guest: guest}
		if seen[one.driveKey] {
			continue
		}
		seen[one.driveKey] = true
		if i := slices.IndexFunc(trials, func(t trial.Controllers) bool { return t.Live == guest }); i >= 0 {
			one.trial = trials[i].Trial
		}
		all = append(all, one)
	}
	for _, t := range trials {
		one := drive{driveKey{t.Tried.Identity(), t.Tried.ServiceAccount(), canary, t.Trial}, t.Tried, t.Live}
		if t.Live == nil {
			one.role = shadow
		}
		all = append(all, one)
	}
	return all
}

// driving is a driver at work for a guest.
type driving struct {
	drive
	driver *controller.Driver
	end    func()
}

// runControllers keeps one driver for each controller that is live or on trial.
// What drove another opening of it, which will be closed, is begun anew.
func (h *Host) runControllers(ctx context.Context) error {
	running := map[driveKey]driving{}
	swapped := h.loader.Swapped()
	var drivers sync.WaitGroup
	defer drivers.Wait()
	for {
		wanted := drivesOf(h.loader.Current())
		for key, was := range running {
			if !slices.ContainsFunc(wanted, func(d drive) bool { return d.driveKey == key && d.guest == was.guest && d.live == was.live }) {
				was.end()
				delete(running, key)
			}
		}
		for _, one := range wanted {
			if _, runs := running[one.driveKey]; runs {
				continue
			}
			driver, err := h.driverOf(one)
			if err != nil {
				h.Log.Warn("controller does not run", "policy", one.guest.Name(), "err", err)
				continue // its Policy's status tells
			}
			own, cancel := context.WithCancel(ctx)
			ended := make(chan struct{})
			running[one.driveKey] = driving{one, driver, func() { cancel(); <-ended }}
			drivers.Go(func() {
				defer close(ended)
				if err := driver.Run(own); err != nil {
					h.Log.Error("controller ended", "policy", one.guest.Name(), "err", err)
				}
			})
		}
		h.publishDrivers(running)
		select {
		case <-swapped:
		case <-ctx.Done():
			return nil
		}
	}
}

// publishDrivers says which drivers decide.
func (h *Host) publishDrivers(running map[driveKey]driving) {
	all := make([]explain.Driven, 0, len(running))
	for _, one := range running {
		if one.role != shadow {
			account := one.guest.ServiceAccount()
			all = append(all, explain.Driven{Policy: one.guest.Name(), ServiceAccount: account.Namespace + "/" + account.Name, Driver: one.driver})
		}
	}
	slices.SortFunc(all, func(a, b explain.Driven) int { return cmp.Compare(a.Policy, b.Policy) })
	h.driven.Store(&all)
}

// drivers are the controllers that run and decide.
func (h *Host) drivers() []explain.Driven {
	if all := h.driven.Load(); all != nil {
		return *all
	}
	return nil
}

// record keeps what a controller is asked, for berth replay.
func (h *Host) record(guest *sandbox.Controller, of string) func(store.Object, time.Time, []byte, []byte, error) {
	return func(parent store.Object, at time.Time, question, answer []byte, err error) {
		q := questions.Question{
			About:   questions.About{Resource: of, Namespace: parent.GetNamespace(), Name: parent.GetName(), Policy: guest.Name(), At: at},
			Program: guest.Identity(), In: question, Out: answer,
		}
		if err != nil {
			q.Out, q.Failure = nil, err.Error()
		}
		h.questions.Add(q)
	}
}

func (h *Host) driver(guest *sandbox.Controller) (*controller.Driver, error) {
	return controller.New(h.driverConfig(guest))
}

func (h *Host) driverConfig(guest *sandbox.Controller) controller.Config {
	as := actingAs(guest)
	parent := guest.Parent()
	of, _ := servedType(parent.APIVersion, parent.Kind) // who does not serve it has no driver
	return controller.Config{
		Record: h.record(guest, of.Resource),
		Guest:  guest, Objects: h.store, Writer: writer{h.registry, as}, Access: access{h.auth.Access, as}, Note: guest.Note, Broke: guest.Broke,
		Usage: h.podUsage, Metrics: h.metricsFor(as), Types: servedType, Now: h.Now, Log: h.Log, Recorder: h.events.For(componentOf(guest.Name())),
	}
}

// driverOf is a driver with its part in a trial. What a canary is compared with
// is asked by a driver of its own, which does not run.
func (h *Host) driverOf(d drive) (*controller.Driver, error) {
	cfg := h.driverConfig(d.guest)
	switch {
	case d.role == decides && d.trial != nil:
		cfg.Trial.Takes = func(parent types.UID) bool { return !d.trial.Takes(parent) }
	case d.role == canary:
		beside := h.driverConfig(d.live)
		beside.Trial.Beside = true
		live, err := controller.New(beside)
		if err != nil {
			return nil, err
		}
		cfg.Trial = controller.Trial{
			Takes: d.trial.Takes, Live: func() []*controller.Driver { return []*controller.Driver{live} },
			Compared: compared(d.trial), NotCompared: d.trial.Counts.NotCompared,
		}
	case d.role == shadow:
		cfg.Record = nil // it decided nothing
		cfg.Trial = controller.Trial{Shadow: true, Compared: compared(d.trial), NotCompared: d.trial.Counts.NotCompared, Live: func() (live []*controller.Driver) {
			for _, other := range h.drivers() {
				live = append(live, other.Driver)
			}
			return live
		}}
	}
	return controller.New(cfg)
}

// compared counts what two controllers want.
func compared(t *trial.Trial) func(store.Object, []controller.Effect, []controller.Effect) {
	return func(parent store.Object, live, tried []controller.Effect) {
		name := parent.GetName()
		if parent.GetNamespace() != "" {
			name = parent.GetNamespace() + "/" + name
		}
		if k, ok := kind.Of(parent); ok {
			name = k.Name + " " + name
		}
		t.Counts.Answered(name, answerOf(live), answerOf(tried))
	}
}

func answerOf(effects []controller.Effect) (a trial.Answer) {
	for _, e := range effects {
		a.Texts, a.Keys = append(a.Texts, e.Text), append(a.Keys, e.Key)
	}
	return a
}
