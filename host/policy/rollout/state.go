package rollout

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Phase is the name of where a Policy's module, or its canary, stands. The zero
// value is that there is none.
type Phase string

// Phases of both.
const (
	// Loading: its module is being loaded, beside what was before.
	Loading Phase = "Loading"
)

// Phases of a Policy's own module.
const (
	// Live: what the spec asks for decides.
	Live Phase = "Live"
	// Refused: it does not load, and will not unless the spec changes.
	Refused Phase = "Refused"
	// WaitingForModule: another Module of the name may cure what was refused.
	WaitingForModule Phase = "WaitingForModule"
	// WaitingForMemory: it was refused for want of memory.
	WaitingForMemory Phase = "WaitingForMemory"
	// WaitingForHost: the host could not load it, through no fault of its own.
	WaitingForHost Phase = "WaitingForHost"
)

// Phases of a canary.
const (
	// Running: it decides its share.
	Running Phase = "Running"
	// Waiting: its Module is not there, or not signed, yet, or the host could not
	// load it.
	Waiting Phase = "Waiting"
	// RolledBack: it has failed, and is not tried again.
	RolledBack Phase = "RolledBack"
)

// Program is something that was loaded, by a number of its own. The zero value
// is none.
type Program struct {
	ID int64
	// Key covers what it was made from, Revision names it.
	Key      string
	Kind     string
	Revision v1alpha1.PolicyRevision
}

// None says that there is no program.
func (p Program) None() bool { return p.ID == 0 }

// State is where one Policy stands. It is a value: Next returns another.
type State struct {
	// Policy is the object that it is the state of; nil while the first module
	// is being loaded.
	Policy *v1alpha1.Policy
	Main   Main
	Canary Canary
	// Previous are the programs before the live one, newest first, kept warm.
	Previous []Program
}

// Main is where the Policy's own module stands.
type Main struct {
	Phase Phase
	// Before is the phase that holds while another module is Loading.
	Before Phase
	// Live is what decides: none where nothing loads.
	Live Program
	// Asked is the key of the spec that Phase is about.
	Asked string
	// Why it was refused.
	Why string
	// ModuleVersion is that of the Module which is not good enough, empty if
	// there was none, in WaitingForModule.
	ModuleVersion string
	// Memory is how much there was no room for, in WaitingForMemory.
	Memory int64
	// Retry is when it is tried again, in WaitingForHost, and LastGoodRetry when
	// the last good revision is, which the host could not load either.
	Retry, LastGoodRetry metav1.Time
}

// Stands is the phase that holds.
func (m *Main) Stands() Phase {
	if m.Phase == Loading {
		return m.Before
	}
	return m.Phase
}

// Canary is where the Policy's canary stands.
type Canary struct {
	Phase Phase
	// Before is the phase that holds while another canary is Loading.
	Before Phase
	// Trial is what Phase is about, Module what the spec calls what is tried.
	Trial, Module string
	// Program decides a share, while it is Running.
	Program Program
	// Ended tells how it ended, RolledBack or Waiting.
	Ended *v1alpha1.CanaryStatus
	// ModuleVersion is that of the Module which is not good enough, Waiting, if
	// it is not tried again at Retry anyway.
	ModuleVersion string
	Retry         metav1.Time
}

// Stands is the phase that holds.
func (c *Canary) Stands() Phase {
	if c.Phase == Loading {
		return c.Before
	}
	return c.Phase
}

// Input is all that Next goes by, beside the state.
type Input struct {
	Now    metav1.Time
	Policy *v1alpha1.Policy
	// Starting says that no set was made yet: what the status tells is of
	// another host, or of this one before it was started again.
	Starting bool
	// ModuleVersion is that of the spec's Module, for who waits for it, and
	// CanaryVersion that of the canary's.
	ModuleVersion, CanaryVersion string
	// Memory says that there is as much as was wanting.
	Memory bool
	// Fault is why the running canary must end; nil while it does well.
	Fault *Fault
	// Answer is to a Load; nil in a pass's first call.
	Answer *Answer
}

// Fault is why a canary must end.
type Fault struct{ Reason, Message string }

// Slot is what something is loaded for.
type Slot uint8

const (
	ForMain Slot = iota
	ForCanary
	// ForLastGood is the revision that decided when the host ended.
	ForLastGood
)

func (s Slot) String() string { return [...]string{"main", "canary", "last good"}[s%3] }

// Answer is what became of a Load: a program, why there is none, or that it is
// not done.
type Answer struct {
	Load    Load
	Pending bool
	Program Program
	Refusal *Refusal
}

// Refusal is why something did not load.
type Refusal struct {
	Message string
	// Waits says that another Module may cure it than that of ModuleVersion.
	Waits         bool
	ModuleVersion string
	// Memory is how much there was no room for, 0 if it is something else.
	Memory int64
	// Passes says that it is the host's own trouble.
	Passes bool
}

// Action is something to be done. A Load comes last, and Next is to be called
// again with the answer.
type Action interface{ action() }

type (
	// Load wants a program of the object, from that module, of that kind (empty
	// for any). Name is the same for the same program of the same object.
	Load struct {
		For    Slot
		Policy *v1alpha1.Policy
		Module string
		Kind   string
		Name   string
	}
	// Use lets a program decide: the one that was loaded, the canary, or a
	// previous one. Counts begin anew.
	Use struct{ Program Program }
	// Retire gives a program back, once nobody asks it any more.
	Retire struct{ Program Program }
	// StartCanary lets a program decide a share. Resume says that its counts go
	// on from the status.
	StartCanary struct {
		Program Program
		Trial   string
		Resume  bool
	}
	// EndCanary takes the canary away; what it counted is kept.
	EndCanary struct{ Promoted bool }
	// CountAnew begins all counts again.
	CountAnew struct{}
	// ForgetTrial forgets what the last trial counted.
	ForgetTrial struct{}
	// ResumeShadow has a shadow's counts go on from the status.
	ResumeShadow struct{}
	// Publish makes a new set: something else decides now.
	Publish struct{}
	// Warn tells the operator.
	Warn struct{ Text, Module, Reason, Message string }
)

func (Load) action()         {}
func (Use) action()          {}
func (Retire) action()       {}
func (StartCanary) action()  {}
func (EndCanary) action()    {}
func (CountAnew) action()    {}
func (ForgetTrial) action()  {}
func (ResumeShadow) action() {}
func (Publish) action()      {}
func (Warn) action()         {}
