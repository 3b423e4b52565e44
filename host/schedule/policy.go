package schedule

import "github.com/berth-dev/berth/host/schedule/profile"

// The contract with policies lies in package profile, below the engine; these
// names let its implementations speak of schedule alone.
type (
	Info      = profile.Info
	ReasonID  = profile.ReasonID
	Reasons   = profile.Reasons
	Answer    = profile.Answer
	Policy    = profile.Policy
	Predicate = profile.Predicate
	Priority  = profile.Priority
	WhatIf    = profile.WhatIf
	Foreseer  = profile.Foreseer

	LiveSet          = profile.LiveSet
	Profile          = profile.Profile
	ProfilePredicate = profile.Predicated
	ProfilePriority  = profile.Prioritized
)

// NewReasons returns an empty table of reasons.
func NewReasons(limit int) *Reasons { return profile.NewReasons(limit) }
