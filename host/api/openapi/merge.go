package openapi

import (
	"encoding/json"
	"fmt"
	"maps"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Part is what somebody else says in version 2 of one group and version.
type Part struct {
	Of schema.GroupVersion
	// Doc is changed by nobody.
	Doc *spec.Swagger
	// Hash is another for another Doc.
	Hash string
}

// Merge adds parts to a document of version 2: its own paths and definitions stay,
// theirs of the same name and another meaning get another name. A part that cannot be
// added is left out, and told.
func Merge(own []byte, parts []Part, left func(out Part, err error)) ([]byte, error) {
	doc := &spec.Swagger{}
	if err := json.Unmarshal(own, doc); err != nil {
		return nil, err
	}
	for _, p := range parts {
		with, err := merge(doc, p.Doc)
		if err != nil {
			left(p, err)
			continue
		}
		doc = with
	}
	return json.Marshal(doc)
}

// merge leaves doc as it was. The library panics where only one of two definitions
// that are alike names kinds.
func merge(doc, part *spec.Swagger) (with *spec.Swagger, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("merge: %v", r)
		}
	}()
	copied := *doc
	copied.Definitions, copied.Parameters = maps.Clone(doc.Definitions), maps.Clone(doc.Parameters)
	copied.Paths = &spec.Paths{VendorExtensible: doc.Paths.VendorExtensible, Paths: maps.Clone(doc.Paths.Paths)}
	return &copied, aggregator.MergeSpecsIgnorePathConflictRenamingDefinitionsAndParameters(&copied, part)
}
