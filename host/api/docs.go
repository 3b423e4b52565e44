package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"

	"github.com/berth-dev/berth/host/api/openapi"

	openapiv2 "github.com/google/gnostic-models/openapiv2"
	openapiv3 "github.com/google/gnostic-models/openapiv3"
	"google.golang.org/protobuf/proto"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// docs keeps OpenAPI documents once somebody asked for them.
type docs struct {
	mu  sync.Mutex
	all map[string]*document
}

// document is made by whoever asks first; others wait for it.
type document struct {
	once sync.Once
	data []byte
	err  error
}

func newDocs() *docs { return &docs{all: map[string]*document{}} }

func (d *docs) get(name string, write func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	doc := d.all[name]
	if doc == nil {
		doc = &document{}
		d.all[name] = doc
	}
	d.mu.Unlock()
	doc.once.Do(func() { doc.data, doc.err = write() })
	return doc.data, doc.err
}

// hash names the state of all documents, so that clients may keep them. They
// change with the program alone.
func (s *server) hash(gv schema.GroupVersion) string {
	return fmt.Sprintf("%.16X", sha256.Sum256([]byte(s.Version.GitVersion+s.Version.GitCommit+s.Version.GoVersion+gv.String())))
}

func docPath(gv schema.GroupVersion) string { return strings.TrimPrefix(root(gv), "/") }

// openAPIIndex lists the documents of version 3.
func (k *call) openAPIIndex() error {
	type link struct {
		ServerRelativeURL string `json:"serverRelativeURL"`
	}
	paths := map[string]link{}
	if k.server.Aggregate != nil {
		for gv, at := range k.server.Aggregate.Documents() {
			paths[docPath(gv)] = link{at}
		}
	}
	for _, gv := range versions() {
		paths[docPath(gv)] = link{"/openapi/v3/" + docPath(gv) + "?hash=" + k.server.hash(gv)}
	}
	data, err := json.Marshal(map[string]any{"paths": paths})
	if err != nil {
		return err
	}
	k.header("application/json")
	return k.write(http.StatusOK, data)
}

const (
	protoV3 = "application/com.github.proto-openapi.spec.v3.v1.0+protobuf"
	protoV2 = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
)

// wantsProto tells whether the client prefers a document as protobuf. The older
// name of the type has an @ in it.
func (k *call) wantsProto(version string) bool {
	for _, clause := range strings.Split(k.r.Header.Get("Accept"), ",") {
		clause = strings.TrimSpace(clause)
		if strings.HasPrefix(clause, "application/com.github.proto-openapi.spec."+version) {
			return true
		}
		if strings.HasPrefix(clause, "application/json") {
			return false
		}
	}
	return false
}

func (k *call) openAPIv3() error {
	asked := strings.TrimPrefix(k.r.URL.Path, "/openapi/v3/")
	if asked == "" {
		return k.openAPIIndex()
	}
	for _, gv := range versions() {
		if docPath(gv) != asked {
			continue
		}
		plain := func() ([]byte, error) { return json.Marshal(openapi.V3(gv, k.server.Version.GitVersion)) }
		return k.document(gv, "v3 "+asked, plain, "v3", protoV3, protoOfV3)
	}
	if k.server.Aggregate != nil {
		for gv := range k.server.Aggregate.Documents() {
			if docPath(gv) == asked {
				k.handOn(gv, false)
				return nil
			}
		}
	}
	return pathNotFound()
}

func (k *call) openAPIv2() error {
	plain := func() ([]byte, error) { return json.Marshal(openapi.V2(versions(), k.server.Version.GitVersion)) }
	return k.document(schema.GroupVersion{}, "v2", plain, "v2", protoV2, protoOfV2)
}

// document answers with a document in the form that the client wants.
func (k *call) document(gv schema.GroupVersion, name string, plain func() ([]byte, error), version, protoType string, toProto func([]byte) ([]byte, error)) error {
	etag := `"` + k.server.hash(gv) + `"`
	h := k.w.Header()
	h.Set("ETag", etag)
	h.Set("Vary", "Accept")
	if k.query.get("hash") != "" {
		h.Set("Cache-Control", "public, immutable")
	}
	if k.r.Header.Get("If-None-Match") == etag {
		k.w.WriteHeader(http.StatusNotModified)
		return nil
	}
	data, err := k.server.docs.get(name, plain)
	media := "application/json"
	if err == nil && k.wantsProto(version) {
		media = protoType
		data, err = k.server.docs.get(name+" proto", func() ([]byte, error) { return toProto(data) })
	}
	if err != nil {
		return err
	}
	h.Set("Content-Type", media)
	return k.write(http.StatusOK, data)
}

func protoOfV3(doc []byte) ([]byte, error) {
	parsed, err := openapiv3.ParseDocument(doc)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}

func protoOfV2(doc []byte) ([]byte, error) {
	parsed, err := openapiv2.ParseDocument(doc)
	if err != nil {
		return nil, err
	}
	return proto.Marshal(parsed)
}
