package openapi

import (
	"maps"
	"slices"
	"sync"

	"github.com/berth-dev/berth/host/api/kind"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/builder3/util"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
	generated "k8s.io/kubernetes/pkg/generated/openapi"
)

// gvkExtension tells clients which kind a schema or an operation is about.
const gvkExtension = "x-kubernetes-group-version-kind"

// models are all schemas by name, with references under prefix.
func models(prefix string) map[string]common.OpenAPIDefinition {
	ref := func(name string) spec.Ref { return spec.MustCreateRef(prefix + name) }
	all := generated.GetOpenAPIDefinitions(ref)
	maps.Copy(all, ownDefinitions(ref))
	return all
}

const prefix3, prefix2 = "#/components/schemas/", "#/definitions/"

var models3 = sync.OnceValue(func() map[string]common.OpenAPIDefinition { return models(prefix3) })

// named gives its model name to a type.
type named interface{ OpenAPIModelName() string }

// modelName is the name of a type's schema.
func modelName(gvk schema.GroupVersionKind) string {
	obj, err := kind.Scheme.New(gvk)
	if err != nil {
		return ""
	}
	if n, ok := obj.(named); ok {
		return n.OpenAPIModelName()
	}
	return ownModel(gvk.Kind)
}

// closure is the set of models that the roots lead to.
func closure(all map[string]common.OpenAPIDefinition, roots []string) []string {
	seen := map[string]bool{}
	for len(roots) > 0 {
		name := roots[len(roots)-1]
		roots = roots[:len(roots)-1]
		if model, ok := all[name]; ok && !seen[name] {
			seen[name] = true
			roots = append(roots, model.Dependencies...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// roots are the models of what a version serves, and of what it is asked with.
func roots(gv schema.GroupVersion) map[string][]schema.GroupVersionKind {
	of := map[string][]schema.GroupVersionKind{}
	add := func(gvk schema.GroupVersionKind) {
		if name := modelName(gvk); name != "" && !slices.Contains(of[name], gvk) {
			of[name] = append(of[name], gvk)
		}
	}
	for _, k := range kind.All {
		if !k.Serves(gv) {
			continue
		}
		add(gv.WithKind(k.Name))
		if k.Strategy != nil || k.Can("list") {
			add(gv.WithKind(k.Name + "List"))
		}
		for _, sub := range k.Subresources {
			if !sub.Body.Empty() && !sub.Connect {
				add(sub.Body)
			}
		}
	}
	return of
}

// metaModels are asked with and answered everywhere.
var metaModels = map[string]string{
	"DeleteOptions": "io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
	"Status":        "io.k8s.apimachinery.pkg.apis.meta.v1.Status",
	"WatchEvent":    "io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
}

const patchModel = "io.k8s.apimachinery.pkg.apis.meta.v1.Patch"

// schemas3 are the components of one version's document.
func schemas3(gv schema.GroupVersion) map[string]*spec.Schema {
	all := models3()
	of := roots(gv)
	for name, model := range metaModels {
		of[model] = append(of[model], gv.WithKind(name))
	}
	out := map[string]*spec.Schema{}
	for _, name := range closure(all, append(slices.Collect(maps.Keys(of)), patchModel)) {
		s := all[name].Schema
		s.Extensions = extensions(s.Extensions, of[name])
		out[name] = util.WrapRefs(&s)
	}
	return out
}

func extensions(had spec.Extensions, gvks []schema.GroupVersionKind) spec.Extensions {
	ext := spec.Extensions{}
	maps.Copy(ext, had)
	delete(ext, common.ExtensionV2Schema)
	if len(gvks) > 0 {
		var list []any
		for _, gvk := range gvks {
			list = append(list, gvkObject(gvk))
		}
		ext[gvkExtension] = list
	}
	return ext
}

func gvkObject(gvk schema.GroupVersionKind) map[string]any {
	return map[string]any{"group": gvk.Group, "version": gvk.Version, "kind": gvk.Kind}
}

// definitions2 are those of the one document of version 2.
func definitions2(gvs []schema.GroupVersion) spec.Definitions {
	all := models(prefix2)
	of := map[string][]schema.GroupVersionKind{}
	for _, gv := range gvs {
		maps.Copy(of, roots(gv))
		for name, model := range metaModels {
			of[model] = append(of[model], gv.WithKind(name))
		}
	}
	out := spec.Definitions{}
	for _, name := range closure(all, append(slices.Collect(maps.Keys(of)), patchModel)) {
		s := all[name].Schema
		if old, ok := s.Extensions[common.ExtensionV2Schema].(spec.Schema); ok {
			s = old
		}
		s.Extensions = extensions(s.Extensions, of[name])
		out[name] = s
	}
	return out
}
