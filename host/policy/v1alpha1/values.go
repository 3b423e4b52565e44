package v1alpha1

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
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
