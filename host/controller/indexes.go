package controller

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/store"
)

// adoptable are the kinds of children that controllers look for by label.
var adoptable = []string{
	"pods", "replicasets.apps", "controllerrevisions.apps", "jobs.batch", "endpointslices.discovery.k8s.io",
}

// referred are the kinds that are found by a reference of their own, with its path.
var referred = map[string]string{"persistentvolumes": "spec.claimRef"}

// Indexes adds those that the driver reads to those of the API, which has
// IndexByOwner for all kinds.
func Indexes(all map[string]map[string]store.IndexFunc) map[string]map[string]store.IndexFunc {
	for _, resource := range adoptable {
		if all[resource] == nil {
			all[resource] = map[string]store.IndexFunc{}
		}
		all[resource][IndexOrphans] = orphans
	}
	all["pods"][IndexLabel] = podLabels
	all["pods"][IndexClaims] = podClaimIndex
	for resource, path := range referred {
		if all[resource] == nil {
			all[resource] = map[string]store.IndexFunc{}
		}
		all[resource][IndexReference] = func(o store.Object) []string {
			ref, _ := referenceAt(o, path)
			if ref == nil {
				return []string{""}
			}
			return []string{referenceIndex(ref.Namespace, ref.Name)}
		}
	}
	return all
}

// labelIndex is what an object with that label in that namespace is found by.
func labelIndex(namespace, key, value string) string {
	return namespace + "\x00" + key + "\x00" + value
}

// referenceIndex is what an object that refers to that one is found by.
func referenceIndex(namespace, name string) string { return namespace + "\x00" + name }

func podLabels(o store.Object) []string {
	labels := o.GetLabels()
	if len(labels) == 0 {
		return nil
	}
	values := make([]string, 0, len(labels))
	for key, value := range labels {
		values = append(values, labelIndex(o.GetNamespace(), key, value))
	}
	return values
}

func orphans(o store.Object) []string {
	if metav1.GetControllerOfNoCopy(o) != nil || len(o.GetLabels()) == 0 {
		return nil
	}
	return []string{o.GetNamespace()}
}
