package host

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/store"
)

// adoptable are the kinds of children that controllers look for by label.
var adoptable = []string{"pods", "replicasets.apps", "controllerrevisions.apps", "jobs.batch"}

// packed are the resources of which there are many, and which hardly anybody
// reads once they are old.
var packed = []string{"events"}

// indexes are all that the parts of a host look up in the store.
func indexes() map[string]map[string]store.IndexFunc {
	all := registry.Indexes()
	for _, resource := range adoptable {
		if all[resource] == nil {
			all[resource] = map[string]store.IndexFunc{}
		}
		all[resource][controller.IndexByOwner] = byController
		all[resource][controller.IndexOrphans] = orphans
	}
	return all
}

func byController(o store.Object) []string {
	if owner := metav1.GetControllerOf(o); owner != nil {
		return []string{string(owner.UID)}
	}
	return nil
}

func orphans(o store.Object) []string {
	if metav1.GetControllerOf(o) != nil || len(o.GetLabels()) == 0 {
		return nil
	}
	return []string{o.GetNamespace()}
}

func isNotFound(err error) bool { return apierrors.IsNotFound(err) || apierrors.IsConflict(err) }
