package aggregate

import (
	"testing"

	"github.com/berth-dev/berth/host/api/openapi"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Whatever a backend says of its kinds, the host reads it, merges it and lives.
func FuzzSwagger(f *testing.F) {
	gv := schema.GroupVersion{Group: "g", Version: "v"}
	const head = `{"swagger":"2.0","paths":{"/apis/g/v/things":{"get":{"parameters":[{"$ref":"#/parameters/a"}],"responses":{"200":{"schema":{"$ref":"#/definitions/A"}}}}}},`
	f.Add([]byte(head + `"definitions":{"A":{"type":"object","x-kubernetes-group-version-kind":[{"group":"g","version":"v","kind":"A"}]}}}`))
	f.Add([]byte(head + `"definitions":{"A":{"properties":{"b":{"$ref":"#/definitions/A"}}}},"parameters":{"a":{"$ref":"#/parameters/a"}}}`))
	f.Add([]byte(head + `"definitions":{"A":{"allOf":[{"$ref":"#/definitions/B"}],"items":{"$ref":"#"},"additionalProperties":true}},"responses":{"b":{"$ref":"#/responses/b"}}}`))
	own := []byte(head + `"definitions":{"A":{"type":"object"}},"parameters":{"a":{"name":"a","in":"query","type":"string"}}}`)
	f.Fuzz(func(t *testing.T, data []byte) {
		doc, err := about(gv, data)
		if err != nil || doc == nil {
			return
		}
		if _, err := openapi.Merge(own, []openapi.Part{{Of: gv, Doc: doc}}, func(openapi.Part, error) {}); err != nil {
			t.Errorf("the host's own document is lost: %v", err)
		}
		a := New(Config{})
		a.found["v.g"] = found{described: described{v2: openapi.Part{Of: gv, Doc: doc}}}
		if a.Converted(gv) == nil {
			t.Error("it is not converted")
		}
	})
}
