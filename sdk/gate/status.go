package gate

import "github.com/berth-dev/berth/sdk/facts"

// The statuses of a Readiness.
const (
	True    = facts.True
	False   = facts.False
	Unknown = facts.Unknown
)
