package openapi

import (
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

//go:generate go run k8s.io/kube-openapi/cmd/openapi-gen@v0.0.0-20260317180543-43fb72c5454a --output-dir . --output-pkg openapi --output-file own_gen.go --go-header-file /dev/null --report-filename /dev/null ../../policy/v1alpha1

const ownPackage = "github.com/berth-dev/berth/host/policy/"

// ownModel is the model name of one of Berth's kinds.
func ownModel(kind string) string { return "dev.berth.policy.v1alpha1." + kind }

// friendly is the model name of a Go type, as Kubernetes makes it: the domain
// turned around, the path with dots.
func friendly(goName string) string {
	if rest, ok := strings.CutPrefix(goName, ownPackage); ok {
		return "dev.berth.policy." + rest
	}
	domain, rest, ok := strings.Cut(goName, "/")
	if !ok {
		return goName
	}
	parts := strings.Split(domain, ".")
	slices.Reverse(parts)
	return strings.Join(parts, ".") + "." + strings.ReplaceAll(rest, "/", ".")
}

// ownDefinitions are those of Berth's kinds, under model names.
func ownDefinitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	named := func(goName string) spec.Ref { return ref(friendly(goName)) }
	out := map[string]common.OpenAPIDefinition{}
	for goName, def := range GetOpenAPIDefinitions(named) {
		for i, d := range def.Dependencies {
			def.Dependencies[i] = friendly(d)
		}
		out[friendly(goName)] = def
	}
	return out
}
