package rollout

import (
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// maxPrevious is how many previous programs are kept warm.
const maxPrevious = 2

// retryAfter is how long what the host could not load is left alone.
const retryAfter = time.Minute

// Next is where a Policy stands next, and what is to be done for it. A pass calls
// it until it asks for no more Load.
func Next(s State, in Input) (State, []Action) {
	t := &transition{State: s, in: in}
	switch {
	case in.Answer == nil:
		t.main()
	case in.Answer.Pending:
		t.pending()
	case in.Answer.Load.For == ForMain:
		t.mainLoaded()
	case in.Answer.Load.For == ForLastGood:
		t.lastGoodLoaded()
	}
	if !t.loads() && t.Policy == in.Policy {
		t.canary()
	}
	return t.State, t.actions
}

// transition is one call of Next.
type transition struct {
	State
	in      Input
	actions []Action
}

func (t *transition) do(a Action) { t.actions = append(t.actions, a) }

// loads says whether an answer is awaited.
func (t *transition) loads() bool {
	if len(t.actions) == 0 {
		return false
	}
	_, loads := t.actions[len(t.actions)-1].(Load)
	return loads
}

// key is that of the spec, which need not be made again while it is as it was.
func (t *transition) key() string {
	if t.Policy == t.in.Policy {
		return t.Main.Asked
	}
	return Key(t.in.Policy, t.in.Policy.Spec.Module)
}

// main compares what the spec asks for with what there is.
func (t *transition) main() {
	t.Main.Phase, t.Main.Before = t.Main.Stands(), ""
	key := t.key()
	same := t.Policy != nil && t.Policy.UID == t.in.Policy.UID
	switch {
	case same && t.Main.Asked == key && !t.again():
		t.adopt()
		if t.Main.Live.None() && t.Policy.Status.Current != nil && due(t.Main.LastGoodRetry, t.in.Now) {
			t.loadLastGood(t.Policy.Spec.Limits)
		}
	case same && !t.Main.Live.None() && t.Main.Live.Key == key: // what was refused is withdrawn
		t.adopt()
		t.settle()
	case !t.Canary.Program.None() && t.Canary.Program.Key == key:
		young := t.Canary.Program
		t.do(EndCanary{Promoted: true})
		t.Canary = Canary{}
		t.use(young)
	case t.warm(key) >= 0:
		t.use(t.Previous[t.warm(key)])
	default:
		t.do(Load{For: ForMain, Policy: t.in.Policy, Module: t.in.Policy.Spec.Module, Kind: t.kind(), Name: t.in.Policy.Name + " " + key})
	}
}

// again says whether what was refused may do now.
func (t *transition) again() bool {
	switch t.Main.Phase {
	case WaitingForModule:
		return t.in.ModuleVersion != t.Main.ModuleVersion
	case WaitingForMemory:
		return t.in.Memory
	case WaitingForHost:
		return due(t.Main.Retry, t.in.Now)
	}
	return false
}

// Due says whether what the host could not load is to be tried again.
func (s *State) Due(now metav1.Time) bool {
	return s.Main.Stands() == WaitingForHost && due(s.Main.Retry, now) ||
		s.Main.Live.None() && due(s.Main.LastGoodRetry, now) ||
		s.Canary.Stands() == Waiting && due(s.Canary.Retry, now)
}

func due(at, now metav1.Time) bool { return !at.IsZero() && !now.Before(&at) }

func (t *transition) later() metav1.Time { return metav1.NewTime(t.in.Now.Add(retryAfter)) }

// adopt goes on with the same program under an object that differs in other
// things.
func (t *transition) adopt() {
	was := t.Policy
	t.Policy = t.in.Policy
	turned := was.ModeOf() != t.Policy.ModeOf()
	if turned {
		t.do(CountAnew{})
	}
	if turned || was.FailsOpen() != t.Policy.FailsOpen() || was.FailsClosed() != t.Policy.FailsClosed() {
		t.do(Publish{})
	}
}

// settle notes that what the spec asks for is what is live.
func (t *transition) settle() {
	t.Main = Main{Phase: Live, Live: t.Main.Live, Asked: t.Main.Live.Key}
}

// warm is the place of the previous program that was made from key, -1 for none.
func (t *transition) warm(key string) int {
	return slices.IndexFunc(t.Previous, func(p Program) bool { return p.Key == key })
}

// kind is what the Policy's modules must be of, empty for any: what a profile
// asks as a predicate must not become something else unseen.
func (t *transition) kind() string {
	p := t.in.Policy
	switch {
	case t.Policy != nil && t.Policy.UID != p.UID:
		return ""
	case !t.Main.Live.None():
		return t.Main.Live.Kind
	case p.Status.Current != nil:
		return p.Status.Kind
	}
	return ""
}

// use lets p decide, and keeps what decided warm behind it. A canary goes on.
func (t *transition) use(p Program) {
	former, previous := t.Main.Live, t.Previous
	t.Policy, t.Main.Live, t.Previous = t.in.Policy, p, nil
	t.settle()
	t.do(Use{p})
	t.do(Publish{})
	if former.None() {
		return
	}
	t.Previous = []Program{former}
	for _, f := range previous {
		switch {
		case f.ID == p.ID:
		case len(t.Previous) < maxPrevious:
			t.Previous = append(t.Previous, f)
		default:
			t.do(Retire{f})
		}
	}
}

// pending notes that something is being loaded.
func (t *transition) pending() {
	if t.in.Answer.Load.For == ForCanary {
		t.Canary.Phase, t.Canary.Before = Loading, t.Canary.Stands()
		return
	}
	t.Main.Phase, t.Main.Before = Loading, t.Main.Stands()
}

// mainLoaded takes what the spec asks for in, or notes why that is not possible.
func (t *transition) mainLoaded() {
	if no := t.in.Answer.Refusal; no != nil {
		t.refused(no)
		return
	}
	first := t.Policy == nil
	t.use(t.in.Answer.Program)
	if first && t.resumes() {
		t.do(ResumeShadow{})
	}
}

// resumes says whether a shadow was one of the same revision when the host ended.
func (t *transition) resumes() bool {
	s := &t.Policy.Status
	return t.in.Starting && t.Policy.ModeOf() == v1alpha1.Shadow && s.ObservedGeneration == t.Policy.Generation &&
		s.Current != nil && SameRevision(s.Current, &t.Main.Live.Revision)
}

// refused notes why the spec did not go live. What is live stays so.
func (t *transition) refused(no *Refusal) {
	first, key := t.Policy == nil, t.key()
	if t.Main.Why != no.Message {
		t.do(Warn{Text: "policy refused", Message: no.Message})
	}
	t.Main = Main{Phase: Refused, Live: t.Main.Live, Asked: key, Why: no.Message, LastGoodRetry: t.Main.LastGoodRetry}
	switch {
	case no.Waits:
		t.Main.Phase, t.Main.ModuleVersion = WaitingForModule, no.ModuleVersion
	case no.Memory > 0:
		t.Main.Phase, t.Main.Memory = WaitingForMemory, no.Memory
	case no.Passes:
		t.Main.Phase, t.Main.Retry = WaitingForHost, t.later()
	}
	if !first {
		t.adopt()
		return
	}
	t.Policy = t.in.Policy
	t.do(Publish{})
	if t.in.Starting && t.Policy.Status.Current != nil {
		t.loadLastGood(t.Policy.Spec.Limits)
	}
}

// loadLastGood asks for the revision that decided when the host ended, for a
// Policy whose spec was refused then too. A controller acts as it did then, not as
// the refused spec has it; where the status of an older host does not say as whom,
// it does not act.
func (t *transition) loadLastGood(limits *v1alpha1.PolicyLimits) {
	p := t.Policy.DeepCopy()
	last := p.Status.Current
	if last.ServiceAccount == nil && p.Status.Kind == abi.KindController {
		t.do(Warn{Text: lastGoodFails, Module: last.Module, Message: "its status does not say which ServiceAccount it acted as"})
		return
	}
	p.Spec.Module, p.Spec.Entry, p.Spec.Config, p.Spec.ServiceAccount, p.Spec.Limits = last.Module, last.Entry, last.Config, last.ServiceAccount, limits
	t.do(Load{For: ForLastGood, Policy: p, Module: last.Module, Kind: p.Status.Kind, Name: p.Name + " last good"})
}

const lastGoodFails = "the policy's last good revision does not load either"

func (t *transition) lastGoodLoaded() {
	no := t.in.Answer.Refusal
	again := !t.Main.LastGoodRetry.IsZero()
	t.Main.LastGoodRetry = metav1.Time{}
	switch {
	case no == nil:
		t.Main.Live = t.in.Answer.Program
		t.do(Use{t.Main.Live})
		if again {
			t.do(Publish{})
		}
	case no.Passes:
		t.Main.LastGoodRetry = t.later()
		t.do(Warn{Text: lastGoodFails, Module: t.Policy.Status.Current.Module, Message: no.Message})
	case t.in.Answer.Load.Policy.Spec.Limits != nil:
		t.loadLastGood(nil) // they may be what was refused
	default:
		t.do(Warn{Text: lastGoodFails, Module: t.Policy.Status.Current.Module, Message: no.Message})
	}
}
