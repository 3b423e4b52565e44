package aggregate_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
)

// Clients such as kubectl explain find what a backend says of its kinds beside the
// host's own documents.
func TestABackendsOpenAPIIsServedBesideTheHosts(t *testing.T) {
	t.Parallel()
	c := start(t, sound, func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/openapi/v3":
			// It lists others' kinds too, and leads elsewhere: neither is believed.
			fmt.Fprint(w, `{"paths":{"apis/things.example.com/v1beta1":{"serverRelativeURL":"//evil.example/api/v1/secrets?hash=A%26B"},"apis/apps/v1":{"serverRelativeURL":"/openapi/v3/apis/apps/v1?hash=C"},"apis/other.example.com/v1":{"serverRelativeURL":"/x"}}}`)
		case "/openapi/v3" + root:
			w.Header().Set("Content-Type", "application/json")
			fmt.Fprintf(w, `{"openapi":"3.0.0","info":{"title":%q,"version":"1"},"components":{"schemas":{"Thing":{"type":"object","description":"A thing.","x-kubernetes-group-version-kind":[{"group":"things.example.com","version":"v1beta1","kind":"Thing"}]}}}}`, r.Header.Get("X-Remote-User"))
		default:
			things(w, r)
		}
	})
	c.register(t, nil)
	c.becomes(t, "True Passed")
	documents := discovery.NewDiscoveryClientForConfigOrDie(c.Config("")).OpenAPIV3()
	paths, err := documents.Paths()
	if err != nil {
		t.Fatal(err)
	}
	if at := paths["apis/things.example.com/v1beta1"]; at == nil || at.ServerRelativeURL() != "/openapi/v3"+root+"?hash=A%26B" {
		t.Errorf("the document lies at %v", at)
	}
	if _, listed := paths["apis/other.example.com/v1"]; listed || strings.HasSuffix(paths["apis/apps/v1"].ServerRelativeURL(), "=C") {
		t.Error("what the backend says of others is listed")
	}
	doc, err := openapi3.NewRoot(documents).GVSpec(schema.GroupVersion{Group: "things.example.com", Version: "v1beta1"})
	if err != nil {
		t.Fatal(err)
	}
	if thing := doc.Components.Schemas["Thing"]; thing == nil || thing.Description != "A thing." || doc.Info.Title != "system:berth" {
		t.Errorf("the document, asked for as %q, says %+v", doc.Info.Title, thing)
	}
}

func TestABackendWithoutOpenAPIHasNoDocument(t *testing.T) {
	t.Parallel()
	c := start(t, sound, func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/openapi") {
			http.NotFound(w, r)
			return
		}
		things(w, r)
	})
	c.register(t, nil)
	c.becomes(t, "True Passed")
	if code, body := c.get(t, "/openapi/v3", nil); code != http.StatusOK || strings.Contains(body, "things.example.com") {
		t.Errorf("the list of documents is %d %s", code, body)
	}
	if code, _ := c.get(t, "/openapi/v3"+root, nil); code != http.StatusNotFound {
		t.Errorf("a document that is none is answered %d", code)
	}
}
