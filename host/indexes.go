package host

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/network"
	"github.com/berth-dev/berth/host/store"
)

// packed are the resources of which there are many, and which hardly anybody
// reads once they are old.
var packed = []string{"events"}

// indexes are all that the parts of a host look up in the store.
func indexes() map[string]map[string]store.IndexFunc {
	return network.Indexes(controller.Indexes(registry.Indexes()))
}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
