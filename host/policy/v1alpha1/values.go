package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// Resources of this group, as the store names them.
const (
	Policies = "policies.policy.berth.dev"
	Modules  = "modules.policy.berth.dev"
	Profiles = "profiles.policy.berth.dev"
)

// Phases of a Policy, as its status tells them.
const (
	PhaseLive        = "Live"
	PhaseRefused     = "Refused"
	PhaseQuarantined = "Quarantined"
	PhaseOff         = "Off"
	// PhaseNotRunning is a controller that is loaded and that nothing drives: for
	// want of rights, or of the kinds that it asks for.
	PhaseNotRunning = "NotRunning"
)

// Phases of a canary.
const (
	PhaseRunning    = "Running"
	PhaseRolledBack = "RolledBack"
	// PhaseWaiting is a canary whose module is not there, or not signed, yet.
	PhaseWaiting = "Waiting"
)

// Conditions of a Policy.
const (
	ConditionLive   = "Live"
	ConditionCanary = "CanaryHealthy"
)

// Why a canary was rolled back.
const (
	ReasonTrapped   = "Trapped"
	ReasonFuelSpent = "FuelSpent"
	ReasonFailed    = "Failed"
	ReasonRefuses   = "RefusesTooMuch"
	// ReasonRefused is a canary that did not even load.
	ReasonRefused = "Refused"
)

// Why a Profile is not live.
const (
	// ReasonNameTaken is a schedulerName that another Profile decides for.
	ReasonNameTaken = "SchedulerNameTaken"
	// ReasonNotFound is a name that no Policy has.
	ReasonNotFound = "PolicyNotFound"
	// ReasonLost is a predicate that decided once and does not load any more.
	ReasonLost = "PolicyLost"
	// ReasonOtherKind is a Policy that is listed as what it is not.
	ReasonOtherKind = "PolicyOfOtherKind"
	// ReasonIdleGroup is a group that none of the predicates names.
	ReasonIdleGroup = "GroupNotNamed"
	// ReasonNotLive is a Policy that has not been live yet.
	ReasonNotLive = "PolicyNotLive"
)

// How a revision came.
const (
	CamePushed     = "Pushed"
	CamePromoted   = "Promoted"
	CameRolledBack = "RolledBack"
	CameCanary     = "Canary"
)

// How a revision left.
const (
	LeftReplaced       = "Replaced"
	LeftRolledBack     = "RolledBack"
	LeftAutoRolledBack = "AutoRolledBack"
)

// Digest turns a Module's name or digest into the digest.
func Digest(name string) (string, error) {
	digest := strings.Replace(name, "sha256-", "sha256:", 1)
	raw, ok := strings.CutPrefix(digest, "sha256:")
	if b, err := hex.DecodeString(raw); !ok || err != nil || len(b) != sha256.Size {
		return "", fmt.Errorf("module %q: want sha256-<64 hex digits>, as `kubectl get modules` shows it", name)
	}
	return digest, nil
}

// ModuleName is the name of the Module of that digest.
func ModuleName(digest string) string { return strings.Replace(digest, "sha256:", "sha256-", 1) }

// ModeOf is a Policy's mode, Enforce where it names none.
func (p *Policy) ModeOf() Mode {
	if p.Spec.Mode == "" {
		return Enforce
	}
	return p.Spec.Mode
}

// FailsOpen says whether a predicate admits where its policy fails.
func (p *Policy) FailsOpen() bool { return p.Spec.FailureMode == Open }

// FailsClosed says whether a pod waits where its priority fails.
func (p *Policy) FailsClosed() bool { return p.Spec.FailureMode == Closed }

// WeightOf is a priority's weight, 1 where it names none.
func (p ProfilePriority) WeightOf() int64 { return int64(max(p.Weight, 1)) }

// Schedulers are the values of spec.schedulerName that pick the profile.
func (p *Profile) Schedulers() []string {
	if len(p.Spec.SchedulerNames) == 0 {
		return []string{p.Name}
	}
	return p.Spec.SchedulerNames
}

// Group returns the members of a group; ok says that there is one.
func (p *Profile) Group(name string) (members []string, ok bool) {
	for i := range p.Spec.Groups {
		if p.Spec.Groups[i].Name == name {
			return p.Spec.Groups[i].Members, true
		}
	}
	return nil, false
}

// Asks says whether the policy stands among the predicates, by itself or in a
// group.
func (p *Profile) Asks(policy string) bool {
	return slices.ContainsFunc(p.Spec.Predicates, func(q ProfilePredicate) bool {
		members, isGroup := p.Group(q.Name)
		return q.Name == policy && !isGroup || slices.Contains(members, policy)
	})
}

// Names returns the policies that a profile mentions, groups resolved, each once.
func (p *Profile) Names() []string {
	var all []string
	for _, predicate := range p.Spec.Predicates {
		if members, ok := p.Group(predicate.Name); ok {
			all = append(all, members...)
			continue
		}
		all = append(all, predicate.Name)
	}
	for _, priority := range p.Spec.Priorities {
		all = append(all, priority.Name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}
