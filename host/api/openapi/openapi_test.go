package openapi

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestEveryReferenceLeadsToASchema holds for each document: a client that
// follows a reference finds something.
func TestEveryReferenceLeadsToASchema(t *testing.T) {
	t.Parallel()
	seen := map[schema.GroupVersion]bool{}
	for _, k := range kind.All {
		for _, gv := range k.Served {
			if seen[gv] {
				continue
			}
			seen[gv] = true
			doc := V3(gv, "v1")
			data, err := json.Marshal(doc)
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range strings.Split(string(data), `"$ref":"`+prefix3)[1:] {
				name, _, _ := strings.Cut(part, `"`)
				if doc.Components.Schemas[name] == nil {
					t.Errorf("%s refers to %s, which isn't there", gv, name)
				}
			}
		}
	}
}

func TestEveryKindHasASchemaThatNamesIt(t *testing.T) {
	t.Parallel()
	for _, k := range kind.All {
		for _, gv := range k.Served {
			s := schemas3(gv)[modelName(gv.WithKind(k.Name))]
			if s == nil {
				t.Errorf("%s %s has no schema", gv, k.Name)
				continue
			}
			if _, ok := s.Extensions[gvkExtension]; !ok {
				t.Errorf("the schema of %s %s doesn't say what it is of", gv, k.Name)
			}
			if s.Description == "" {
				t.Errorf("the schema of %s %s describes nothing", gv, k.Name)
			}
		}
	}
}

// TestOwnKindsOfferNoStrategicPatch holds for kubectl apply, which sends the
// patch that the document names.
func TestOwnKindsOfferNoStrategicPatch(t *testing.T) {
	t.Parallel()
	for _, k := range kind.All {
		for _, gv := range k.Served {
			for path, item := range V3(gv, "v1").Paths.Paths {
				if item.Patch == nil || !strings.HasSuffix(path, "/"+k.Resource+"/{name}") {
					continue
				}
				if _, offered := item.Patch.RequestBody.Content["application/strategic-merge-patch+json"]; offered == k.Own() {
					t.Errorf("PATCH %s offers a strategic merge patch: %v", path, offered)
				}
			}
		}
	}
}
