// Package reconcile is what a controller is asked and what it answers: a Request has
// one parent with its children, a Result what is to be created, patched and deleted.
//
//	func (noted) Reconcile(r *reconcile.Request) (reconcile.Result, error) {
//		if len(r.Children) > 0 {
//			return reconcile.Result{}, nil
//		}
//		return reconcile.Result{Create: []reconcile.Creation{{Object: configMap, Count: 1}}}, nil
//	}
//
// A controller is registered by sdk.Controller. It keeps nothing between two calls:
// what it must remember it writes into the parent's status, or into Memory.
package reconcile
