package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
)

// Observe says what a gate wants to know of each pod. A guest can reach
// nothing: the host looks, and passes what it saw as the pod's Observations.
// The setting "observe" of the policy, if there is one, takes its place. Package
// observe has what can be wanted.
func Observe(wants ...abi.Observe) Option {
	return func(p *guest.Policy) { p.Observe = append(p.Observe, wants...) }
}
