package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
)

// adoptable are the kinds of children that controllers look for by label.
var adoptable = []string{
	"pods", "replicasets.apps", "controllerrevisions.apps", "jobs.batch", "endpointslices.discovery.k8s.io",
}

// Indexes adds those that the driver reads to those of the API, which has
// IndexByOwner for all kinds.
func Indexes(all map[string]map[string]store.IndexFunc) map[string]map[string]store.IndexFunc {
	for _, resource := range adoptable {
		if all[resource] == nil {
			all[resource] = map[string]store.IndexFunc{}
		}
		all[resource][IndexOrphans] = orphans
	}
	return all
}

func orphans(o store.Object) []string {
	if metav1.GetControllerOf(o) != nil || len(o.GetLabels()) == 0 {
		return nil
	}
	return []string{o.GetNamespace()}
}
