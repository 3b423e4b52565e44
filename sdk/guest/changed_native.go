//go:build !wasip1

package guest

import (
	"fmt"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Unchanged fails where the controller has changed what its last question, b, told
// it of: the next may tell of the same objects. It is for tests.
func (in *Instance) Unchanged(b []byte) error {
	at, err := root(b)
	if err != nil {
		return err
	}
	var input fb.ReconcileInput
	input.Init(b, at)
	var fresh reconcile.Reader
	fresh.Read(&input, in.podDec, in.rows.Symbols)
	if o := in.request.Changed(&fresh); o != nil {
		return fmt.Errorf("the controller has changed %s %s, which the next question may tell of: change a copy", o.Kind, o.Name)
	}
	return nil
}
