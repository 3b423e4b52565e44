package aggregate

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"

	"github.com/berth-dev/berth/host/api/openapi"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-openapi/pkg/aggregator"
	"k8s.io/kube-openapi/pkg/openapiconv"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// maxSwagger bounds an OpenAPI v2 document, which describes all that a backend
// serves. Kubernetes' own has 4 MiB.
const maxSwagger = 16 << 20

// described is how a backend describes what an APIService serves.
type described struct {
	// v3 is where the OpenAPI v3 document lies, "" where there is none.
	v3 string
	// v2 has no Doc where there is none. etag is how the backend from names it.
	v2   openapi.Part
	etag string
	from *backend
}

// describe asks a backend how it describes what it serves.
func (a *Aggregator) describe(ctx context.Context, s *apiregistrationv1.APIService) described {
	d := described{v3: a.document(ctx, s), from: a.backend(s)}
	d.v2, d.etag = a.swagger(ctx, s, d.from)
	return d
}

// Documents are where the OpenAPI v3 documents of what backends serve lie, from
// what Run last read: it waits for nobody. Forward answers there, but for those
// that Converted makes.
func (a *Aggregator) Documents() map[schema.GroupVersion]string {
	a.mu.Lock()
	defer a.mu.Unlock()
	all := map[schema.GroupVersion]string{}
	for _, f := range a.found {
		gv := schema.GroupVersion{Group: f.group, Version: f.serves.Version}
		switch d := f.described; {
		case d.v3 != "":
			all[gv] = d.v3
		case d.v2.Doc != nil:
			all[gv] = "/openapi/v3/apis/" + gv.String() + "?hash=" + d.v2.Hash
		}
	}
	return all
}

// Converted is the OpenAPI v3 document of a backend that has version 2 alone, nil
// where it has version 3.
func (a *Aggregator) Converted(gv schema.GroupVersion) *spec3.OpenAPI {
	a.mu.Lock()
	d := a.found[gv.Version+"."+gv.Group].described
	a.mu.Unlock()
	if d.v3 != "" || d.v2.Doc == nil {
		return nil
	}
	return openapiconv.ConvertV2ToV3(d.v2.Doc)
}

// Swaggers are the OpenAPI v2 documents of what backends serve in the order of
// Groups, from what Run last read: it waits for nobody.
func (a *Aggregator) Swaggers() []openapi.Part {
	var all []openapi.Part
	for _, g := range a.Groups() {
		for _, v := range g.Versions {
			a.mu.Lock()
			d := a.found[v.Version+"."+g.Name].described
			a.mu.Unlock()
			if d.v2.Doc != nil {
				all = append(all, d.v2)
			}
		}
	}
	return all
}

// document asks a backend whether it describes what it serves, and by which hash.
// Where it says that the document lies is not believed.
func (a *Aggregator) document(ctx context.Context, s *apiregistrationv1.APIService) string {
	var index struct {
		Paths map[string]struct {
			ServerRelativeURL string `json:"serverRelativeURL"`
		} `json:"paths"`
	}
	if err := a.fetch(ctx, s, "/openapi/v3", "the list of documents", &index); err != nil {
		a.Log.Debug("no OpenAPI documents of an APIService", "apiservice", s.Name, "err", err)
		return ""
	}
	path := "apis/" + s.Spec.Group + "/" + s.Spec.Version
	link, ok := index.Paths[path]
	if !ok {
		return ""
	}
	at := url.URL{Path: "/openapi/v3/" + path}
	if named, err := url.Parse(link.ServerRelativeURL); err == nil && named.Query().Has("hash") {
		at.RawQuery = url.Values{"hash": {named.Query().Get("hash")}}.Encode()
	}
	return at.String()
}

// swagger reads the OpenAPI v2 document of a backend, unless it is as it was. Another
// backend may name another document alike.
func (a *Aggregator) swagger(ctx context.Context, s *apiregistrationv1.APIService, from *backend) (part openapi.Part, etag string) {
	a.mu.Lock()
	had := a.found[s.Name].described
	a.mu.Unlock()
	if had.from != from {
		had.etag = ""
	}
	data, etag, err := a.get(ctx, s, "/openapi/v2", "the document", had.etag, maxSwagger)
	if err == nil && data == nil {
		return had.v2, etag
	}
	part.Of = schema.GroupVersion{Group: s.Spec.Group, Version: s.Spec.Version}
	part.Hash = fmt.Sprintf("%.16X", sha256.Sum256(data))
	if err == nil && part.Hash == had.v2.Hash {
		return had.v2, etag
	}
	if err != nil {
		a.Log.Debug("no OpenAPI v2 document of an APIService", "apiservice", s.Name, "err", err)
		return part, ""
	}
	if part.Doc, err = about(part.Of, data); err != nil {
		a.Log.Warn("the OpenAPI v2 document of an APIService is left out", "apiservice", s.Name, "err", err)
	}
	return part, etag
}

// about reads the part of a document that is about the group and version: nil where
// it has none. A document is refused that others could not read or merge.
func about(gv schema.GroupVersion, data []byte) (doc *spec.Swagger, err error) {
	defer func() {
		if r := recover(); r != nil {
			doc, err = nil, fmt.Errorf("it cannot be converted: %v", r)
		}
	}()
	doc = &spec.Swagger{}
	if err := json.Unmarshal(data, doc); err != nil {
		return nil, err
	}
	// A parameter that leads to itself would be followed for ever.
	for name, p := range doc.Parameters {
		if p.Ref.String() != "" {
			return nil, fmt.Errorf("parameter %s refers to %s", name, p.Ref.String())
		}
	}
	if doc.Paths == nil {
		return nil, errors.New("it has no paths")
	}
	doc = aggregator.FilterSpecByPathsWithoutSideEffects(doc, []string{"/apis/" + gv.String() + "/"})
	if len(doc.Paths.Paths) == 0 {
		return nil, nil
	}
	for name, d := range doc.Definitions {
		if err := narrow(gv, &d); err != nil {
			return nil, fmt.Errorf("definition %s: %w", name, err)
		}
		doc.Definitions[name] = d
	}
	part, err := json.Marshal(doc)
	if err != nil {
		return nil, err
	}
	if _, err := openapi_v2.ParseDocument(part); err != nil {
		return nil, err
	}
	openapiconv.ConvertV2ToV3(doc) // panics where it cannot
	return doc, nil
}

// narrow leaves a definition to be about kinds of the group and version alone: what
// a backend says of others' is not believed.
func narrow(gv schema.GroupVersion, d *spec.Schema) error {
	const extension = "x-kubernetes-group-version-kind"
	about, ok := d.Extensions[extension]
	if !ok {
		return nil
	}
	kinds, ok := about.([]any)
	if !ok {
		return fmt.Errorf("%s is %T and not a list", extension, about)
	}
	kinds = slices.DeleteFunc(kinds, func(kind any) bool {
		k, ok := kind.(map[string]any)
		return !ok || k["group"] != gv.Group || k["version"] != gv.Version
	})
	if len(kinds) == 0 {
		delete(d.Extensions, extension)
	} else {
		d.Extensions[extension] = kinds
	}
	return nil
}
