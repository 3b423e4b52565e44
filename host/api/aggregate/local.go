package aggregate

import (
	"context"
	"reflect"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// managed marks APIServices that are made again when somebody deletes or changes
// them.
const managed = "kube-aggregator.kubernetes.io/automanaged"

// priorities are kube-apiserver's of its groups; others come behind them.
var priorities = map[string]int32{
	"": 18000, "apps": 17800, "events.k8s.io": 17750, "authentication.k8s.io": 17700, "authorization.k8s.io": 17600, "autoscaling": 17500,
	"batch": 17400, "networking.k8s.io": 17200, "policy": 17100, "rbac.authorization.k8s.io": 17000, "storage.k8s.io": 16800,
	"scheduling.k8s.io": 16600, "coordination.k8s.io": 16500, "node.k8s.io": 16300, "discovery.k8s.io": 16200,
}

// local are the APIServices of what Berth serves, but for their own group, which
// Kubernetes does not list either.
func local() []*apiregistrationv1.APIService {
	var out []*apiregistrationv1.APIService
	seen := map[schema.GroupVersion]bool{apiregistrationv1.SchemeGroupVersion: true}
	for _, k := range kind.All {
		for _, gv := range k.Served {
			if !seen[gv] {
				seen[gv] = true
				out = append(out, localOf(gv))
			}
		}
	}
	return out
}

func localOf(gv schema.GroupVersion) *apiregistrationv1.APIService {
	spec := apiregistrationv1.APIServiceSpec{Group: gv.Group, Version: gv.Version, GroupPriorityMinimum: 1000, VersionPriority: 15}
	if p, ok := priorities[gv.Group]; ok {
		spec.GroupPriorityMinimum = p
	}
	switch {
	case gv.Group == "":
		spec.VersionPriority = 1
	case gv == schema.GroupVersion{Group: "autoscaling", Version: "v2"}:
		spec.VersionPriority = 30
	}
	return &apiregistrationv1.APIService{
		ObjectMeta: metav1.ObjectMeta{Name: gv.Version + "." + gv.Group, Labels: map[string]string{managed: "onstart"}}, Spec: spec,
	}
}

// keepLocal makes the local APIServices that are missing, and mends others of
// their names.
func (c *Config) keepLocal(ctx context.Context) error {
	for _, want := range local() {
		object, err := c.Objects.Get(ctx, store.Key{Resource: resource, Name: want.Name})
		if have, ok := object.(*apiregistrationv1.APIService); err == nil && ok {
			if reflect.DeepEqual(have.Spec, want.Spec) {
				continue
			}
			if _, _, err := c.Registry.Delete(ctx, registry.On(resource, "", want.Name), nil); err != nil && !apierrors.IsNotFound(err) {
				return err
			}
		}
		if _, err := c.Registry.Create(ctx, registry.On(resource, "", want.Name), want); err != nil && !apierrors.IsAlreadyExists(err) {
			return err
		}
	}
	return nil
}
