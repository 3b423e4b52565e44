package openapi_test

import (
	"encoding/json"
	"testing"

	"github.com/berth-dev/berth/host/api/openapi"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// The library panics where only the added one of two definitions names kinds.
func TestAPartThatCannotBeMergedIsLeftOutAlone(t *testing.T) {
	t.Parallel()
	part := func(path, definition string) openapi.Part {
		doc := &spec.Swagger{}
		if err := json.Unmarshal([]byte(`{"swagger":"2.0","paths":{"/`+path+`":{"get":{"responses":{"200":{"schema":{"$ref":"#/definitions/A"}}}}}},"definitions":{"A":`+definition+`,"`+path+`":{}}}`), doc); err != nil {
			t.Fatal(err)
		}
		return openapi.Part{Doc: doc, Hash: path}
	}
	own, err := json.Marshal(part("own", `{"type":"object"}`).Doc)
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	data, err := openapi.Merge(own, []openapi.Part{
		part("broken", `{"type":"object","x-kubernetes-group-version-kind":[{"group":"g","version":"v","kind":"A"}]}`),
		part("sound", `{"type":"object"}`),
	}, func(p openapi.Part, _ error) { out = append(out, p.Hash) })
	if err != nil {
		t.Fatal(err)
	}
	merged := &spec.Swagger{}
	if err := json.Unmarshal(data, merged); err != nil {
		t.Fatal(err)
	}
	_, sound := merged.Paths.Paths["/sound"]
	_, broken := merged.Paths.Paths["/broken"]
	_, left := merged.Definitions["broken"]
	if len(out) != 1 || out[0] != "broken" || !sound || broken || left {
		t.Errorf("left out are %q of %s", out, data)
	}
}
