package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Controller registers a controller of a kind; call it from init.
func Controller(name string, c reconcile.Reconciler, parent reconcile.Kind, children []reconcile.Kind, opts ...Option) {
	open := func(s *guest.Setup) (any, error) {
		own := fresh(c)
		return own, configure(own, s.Config)
	}
	p := guest.Policy{
		Name: name, Kind: guest.KindController, Parent: parent, Children: children, Open: open,
		Reads: abi.Owners | abi.Time, Scope: abi.ScopeSet,
	}
	for _, o := range opts {
		o(&p)
	}
	guest.Register(p)
}
