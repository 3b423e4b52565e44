package kind

import (
	"reflect"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/store"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// All lists every kind, group by group, in the order in which Kubernetes'
// discovery shows them: it is the order of what `kubectl get all` prints.
var All = assemble(coreKinds(), aggregationKinds(), appsKinds(), eventKinds(), reviewKinds(), autoscalingKinds(),
	batchKinds(), networkingKinds(), nodeKinds(), policyKinds(), rbacKinds(), storageKinds(), schedulingKinds(),
	coordinationKinds(), discoveryKinds(), metricsKinds(), berthKinds())

var (
	byResource  = index()
	byStoreName = indexStored()
	byType      = indexTypes()
)

func assemble(groups ...[]Kind) []*Kind {
	var all []*Kind
	for _, g := range groups {
		for i := range g {
			k := &g[i]
			k.complete()
			all = append(all, k)
		}
	}
	return all
}

// complete derives what an entry leaves to its name.
func (k *Kind) complete() {
	k.group = k.Served[0].Group
	if k.Singular == "" {
		k.Singular = strings.ToLower(k.Name)
	}
	obj, err := Scheme.New(k.GVK())
	if err != nil {
		panic("kind " + k.Name + " is not in the scheme: " + err.Error())
	}
	k.stored = reflect.TypeOf(obj).Elem()
	hub := schema.GroupVersionKind{Group: k.group, Version: runtime.APIVersionInternal, Kind: k.Name}
	if obj, err := Scheme.New(hub); err == nil {
		k.internal = reflect.TypeOf(obj).Elem()
	}
}

func index() map[schema.GroupVersionResource]*Kind {
	m := make(map[schema.GroupVersionResource]*Kind)
	for _, k := range All {
		for _, gv := range k.Served {
			m[gv.WithResource(k.Resource)] = k
		}
	}
	return m
}

func indexStored() map[string]*Kind {
	m := make(map[string]*Kind)
	for _, k := range All {
		if k.Strategy != nil {
			m[k.StoreName()] = k
		}
	}
	return m
}

func indexTypes() map[reflect.Type]*Kind {
	m := make(map[reflect.Type]*Kind)
	for _, k := range All {
		m[k.stored] = k
	}
	return m
}

// Lookup finds the kind that is served at a path.
func Lookup(gv schema.GroupVersion, resource string) (*Kind, bool) {
	k, ok := byResource[gv.WithResource(resource)]
	return k, ok
}

// ByStoreName finds a stored kind by the resource of its keys.
func ByStoreName(name string) (*Kind, bool) {
	k, ok := byStoreName[name]
	return k, ok
}

// ByGVK finds a kind by the name and version that objects carry.
func ByGVK(gvk schema.GroupVersionKind) (*Kind, bool) {
	for _, k := range All {
		if k.Name == gvk.Kind && k.Serves(gvk.GroupVersion()) {
			return k, true
		}
	}
	return nil, false
}

// ByName finds a stored kind by group and kind, whatever the version.
func ByName(gk schema.GroupKind) (*Kind, bool) {
	for _, k := range All {
		if k.Name == gk.Kind && k.Strategy != nil && slices.ContainsFunc(k.Served, func(gv schema.GroupVersion) bool { return gv.Group == gk.Group }) {
			return k, true
		}
	}
	return nil, false
}

// Of finds the kind of a stored object by its Go type.
func Of(obj store.Object) (*Kind, bool) {
	k, ok := byType[reflect.TypeOf(obj).Elem()]
	return k, ok
}

// MustStored is ByStoreName for names that are known to be in the table.
func MustStored(name string) *Kind {
	k, ok := ByStoreName(name)
	if !ok {
		panic("kind: no stored resource " + name)
	}
	return k
}
