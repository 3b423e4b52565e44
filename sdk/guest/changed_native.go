//go:build !wasip1

package guest

import (
	"fmt"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// unchanged fails tests of a controller that changes what it is told of.
func (in *Instance) unchanged(input *fb.ReconcileInput) error {
	var fresh reconcile.Reader
	fresh.Read(input, in.podDec, in.rows.Symbols)
	if o := in.request.Changed(&fresh); o != nil {
		return fmt.Errorf("the controller has changed %s %s, which the next question may tell of: change a copy", o.Kind, o.Name)
	}
	return nil
}
