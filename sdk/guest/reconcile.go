package guest

import (
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Reconcile answers for one parent, in JSON.
func (in *Instance) Reconcile(b []byte) ([]byte, error) {
	if in.control == nil {
		return nil, errKind
	}
	at, err := root(b)
	if err != nil {
		return nil, err
	}
	in.begin()
	var input fb.ReconcileInput
	input.Init(b, at)
	r, ok := in.request.Read(&input, in.podDec, in.rows.Symbols)
	if !ok {
		return nil, errShort
	}
	out, err := withinReconcile(in.control, r)
	if err != nil {
		return nil, err
	}
	return out.JSON(), nil
}

//go:noinline
func withinReconcile(c reconcile.Reconciler, r *reconcile.Request) (reconcile.Result, error) {
	return c.Reconcile(r)
}
