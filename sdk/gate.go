package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/guest"
)

// Gate registers a readiness gate checker for condition types; call it from
// init.
func Gate(name string, g gate.Checker, conditionTypes []string, opts ...Option) {
	open := func(s *guest.Setup) (any, error) {
		own := fresh(g)
		return own, configure(own, s.Config)
	}
	p := guest.Policy{
		Name: name, Kind: guest.KindGate, ConditionTypes: conditionTypes, Open: open,
		Reads: abi.PodLabels | abi.PodAnnotations | abi.Time, Scope: abi.ScopeSet,
	}
	for _, o := range opts {
		o(&p)
	}
	guest.Register(p)
}
