package aggregate_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"

	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/openapi3"
	"k8s.io/client-go/rest"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
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

// swagger describes two kinds by one path each, and others' besides.
const swagger = `{"swagger":"2.0","info":{"title":"things","version":"1"},"paths":{
	"/apis/things.example.com/v1beta1/namespaces/{namespace}/things":{"get":{"operationId":"listThings","responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}},
	"/apis/apps/v1/deployments":{"get":{"operationId":"evil","responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Evil"}}}}}},
	"definitions":{
	"Thing":{"type":"object","description":"A thing.","properties":{"metadata":{"$ref":"#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"}},
		"x-kubernetes-group-version-kind":[{"group":"things.example.com","version":"v1beta1","kind":"Thing"},{"group":"apps","version":"v1","kind":"Deployment"}]},
	"Evil":{"type":"object","x-kubernetes-group-version-kind":[{"group":"apps","version":"v1","kind":"Deployment"}]},
	"io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta":{"type":"object","description":"Another's."}}}`

// withSwagger is a backend that has OpenAPI v2 alone.
func withSwagger(asked *atomic.Int64, doc *atomic.Value) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/openapi/v2":
			now := doc.Load().(string)
			etag := fmt.Sprintf("%q", fmt.Sprint(len(now)))
			w.Header().Set("ETag", etag)
			if r.Header.Get("If-None-Match") == etag {
				w.WriteHeader(http.StatusNotModified)
				return
			}
			asked.Add(1)
			fmt.Fprint(w, now)
		case strings.HasPrefix(r.URL.Path, "/openapi"):
			http.NotFound(w, r)
		default:
			things(w, r)
		}
	}
}

// startSwagger runs an API with such a backend, which is available. The document may
// be replaced.
func startSwagger(t *testing.T, text string) (*cluster, *atomic.Value) {
	t.Helper()
	doc := &atomic.Value{}
	doc.Store(text)
	c := start(t, sound, withSwagger(&atomic.Int64{}, doc))
	c.register(t, nil)
	c.becomes(t, "True Passed")
	return c, doc
}

func TestABackendsSwaggerIsMergedAndConverted(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	var doc atomic.Value
	doc.Store(swagger)
	c := start(t, sound, withSwagger(&asked, &doc))
	client := discovery.NewDiscoveryClientForConfigOrDie(c.Config(""))
	before, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	c.register(t, nil)
	c.becomes(t, "True Passed")
	merged, err := client.OpenAPISchema()
	if err != nil {
		t.Fatal(err)
	}
	definitions := map[string]string{}
	for _, d := range merged.GetDefinitions().GetAdditionalProperties() {
		definitions[d.Name] = d.Value.Description
	}
	if definitions["Thing"] != "A thing." || definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta_v2"] != "Another's." {
		t.Errorf("Thing is %q, its metadata %q", definitions["Thing"], definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta_v2"])
	}
	if had := len(before.GetDefinitions().GetAdditionalProperties()); len(definitions) != had+2 || strings.HasPrefix(definitions["io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"], "Another") {
		t.Errorf("%d definitions became %d", had, len(definitions))
	}
	_, body := c.get(t, "/openapi/v2", nil)
	if of := describing(t, body, "apps/v1, Kind=Deployment"); !slices.Equal(of, []string{"io.k8s.api.apps.v1.Deployment"}) {
		t.Errorf("a Deployment is described by %q", of)
	}
	if of := describing(t, body, "things.example.com/v1beta1, Kind=Thing"); !slices.Equal(of, []string{"Thing"}) {
		t.Errorf("a Thing is described by %q", of)
	}

	v3, err := openapi3.NewRoot(client.OpenAPIV3()).GVSpec(schema.GroupVersion{Group: "things.example.com", Version: "v1beta1"})
	if err != nil {
		t.Fatal(err)
	}
	if thing := v3.Components.Schemas["Thing"]; thing == nil || thing.Description != "A thing." {
		t.Errorf("version 3 says %+v", thing)
	}

	// Whoever has the document is told when it is another.
	etag := func() string {
		client, err := rest.HTTPClientFor(c.Config(""))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := client.Get(c.URL + "/openapi/v2")
		if err != nil {
			t.Fatal(err)
		}
		_ = answer.Body.Close()
		return answer.Header.Get("ETag")
	}
	had := etag()
	doc.Store(strings.Replace(swagger, "A thing.", "Another thing.", 1))
	// A round begins when a service changes.
	c.create(t, "services", &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "another"},
		Spec:       corev1.ServiceSpec{ClusterIP: "None", ClusterIPs: []string{"None"}, Ports: []corev1.ServicePort{{Port: 80}}},
	})
	polltest.Until(t, "the document is another", func() bool { return etag() != had })
	if _, body := c.get(t, "/openapi/v2", nil); !strings.Contains(body, "Another thing.") {
		t.Error("the new document is not served")
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("the backend sent its document %d times", n)
	}
}

// Two backends may name different documents by one ETag.
func TestAnotherBackendsSwaggerIsReadAnew(t *testing.T) {
	t.Parallel()
	c, doc := startSwagger(t, swagger)
	doc.Store(strings.Replace(swagger, "A thing.", "B thing.", 1)) // which has the same ETag
	if _, err := c.Registry.Modify(t.Context(), registry.On(apiServices, "", name), func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*apiregistrationv1.APIService)
		next.Spec.InsecureSkipTLSVerify, next.Spec.CABundle = true, nil
		return next, nil
	}); err != nil {
		t.Fatal(err)
	}
	polltest.Until(t, "the other's document is served", func() bool {
		_, body := c.get(t, "/openapi/v2", nil)
		return strings.Contains(body, "B thing.")
	})
}

// Clients such as kubectl read the documents as protobuf.
func TestAConvertedDocumentIsServedAsProtobuf(t *testing.T) {
	t.Parallel()
	c, _ := startSwagger(t, swagger)
	code, body := c.get(t, "/openapi/v3"+root, http.Header{"Accept": {"application/com.github.proto-openapi.spec.v3.v1.0+protobuf"}})
	var v3 openapiv3.Document
	if err := proto.Unmarshal([]byte(body), &v3); err != nil || code != http.StatusOK {
		t.Fatalf("it is answered %d, and is %v", code, err)
	}
	for _, s := range v3.GetComponents().GetSchemas().GetAdditionalProperties() {
		if s.Name == "Thing" && s.Value.GetSchema().GetDescription() == "A thing." {
			return
		}
	}
	t.Error("a Thing is not described")
}

// describing are the definitions that say that they are of the kind.
func describing(t *testing.T, doc, kind string) (names []string) {
	t.Helper()
	var swagger struct {
		Definitions map[string]struct {
			Kinds []schema.GroupVersionKind `json:"x-kubernetes-group-version-kind"`
		}
	}
	if err := json.Unmarshal([]byte(doc), &swagger); err != nil {
		t.Fatal(err)
	}
	for name, d := range swagger.Definitions {
		for _, k := range d.Kinds {
			if k.String() == kind {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return names
}

// What a backend sends is merged into what all clients read: a document that cannot be
// is left out, and the host stays whole.
func TestABackendsBrokenSwaggerIsLeftOut(t *testing.T) {
	t.Parallel()
	thing := func(parameters, definitions, rest string) string {
		return `{"swagger":"2.0","info":{"title":"things","version":"1"},"paths":{"/apis/things.example.com/v1beta1/things":{"get":{"operationId":"x","parameters":[` + parameters +
			`],"responses":{"200":{"description":"OK","schema":{"$ref":"#/definitions/Thing"}}}}}},"definitions":{"Thing":` + definitions + `}` + rest + `}`
	}
	for title, doc := range map[string]string{
		"no JSON":                         `swagger: "2.0"`,
		"of others alone":                 `{"swagger":"2.0","paths":{"/apis/apps/v1/x":{}},"definitions":{"Thing":{}}}`,
		"without paths":                   `{"swagger":"2.0","definitions":{"Thing":{}}}`,
		"a parameter that is itself":      thing(`{"$ref":"#/parameters/a"}`, `{}`, `,"parameters":{"a":{"$ref":"#/parameters/a"}}`),
		"parameters that are one another": thing(`{"$ref":"#/parameters/a"}`, `{}`, `,"parameters":{"a":{"$ref":"#/parameters/b"},"b":{"$ref":"#/parameters/a"}}`),
		"kinds that are no list":          thing("", `{"x-kubernetes-group-version-kind":"Thing"}`, ""),
		"a type that is a number":         thing("", `{"type":7}`, ""),
		"without end":                     thing("", `{"description":"`+strings.Repeat("x", 17<<20)+`"}`, ""),
		"deep":                            thing("", strings.Repeat(`{"not":`, 20_000)+"{}"+strings.Repeat("}", 20_000), ""),
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			var asked atomic.Int64
			var document atomic.Value
			document.Store(doc)
			c := start(t, sound, withSwagger(&asked, &document))
			c.register(t, nil)
			c.becomes(t, "True Passed")
			schema, err := discovery.NewDiscoveryClientForConfigOrDie(c.Config("")).OpenAPISchema()
			if err != nil {
				t.Fatal(err)
			}
			n := 0
			for _, d := range schema.GetDefinitions().GetAdditionalProperties() {
				n++
				if d.Name == "Thing" {
					t.Error("it is merged")
				}
			}
			if n < 100 || asked.Load() == 0 {
				t.Errorf("%d definitions are served, and the backend was asked %d times", n, asked.Load())
			}
		})
	}
}

// A schema may lead to itself, as JSON Schema's own does.
func TestABackendsSchemaMayLeadToItself(t *testing.T) {
	t.Parallel()
	c, _ := startSwagger(t, strings.Replace(swagger, `"properties":{`, `"properties":{"inner":{"$ref":"#/definitions/Thing"},`, 1))
	if code, body := c.get(t, "/openapi/v2", nil); code != http.StatusOK || !strings.Contains(body, "#/definitions/Thing") {
		t.Errorf("it is not merged: %d", code)
	}
}
