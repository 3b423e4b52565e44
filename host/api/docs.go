package api

import (
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
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
	hash string
	once sync.Once
	data []byte
	err  error
}

func newDocs() *docs { return &docs{all: map[string]*document{}} }

// get is the document of that name and hash. One of another hash is dropped.
func (d *docs) get(name, hash string, write func() ([]byte, error)) ([]byte, error) {
	d.mu.Lock()
	doc := d.all[name]
	if doc == nil || doc.hash != hash {
		doc = &document{hash: hash}
		d.all[name] = doc
	}
	d.mu.Unlock()
	doc.once.Do(func() { doc.data, doc.err = write() })
	return doc.data, doc.err
}

// hash names the state of a document, so that clients may keep it: Berth's own
// change with the program alone.
func (s *server) hash(of ...string) string {
	return fmt.Sprintf("%.16X", sha256.Sum256([]byte(s.Version.GitVersion+s.Version.GitCommit+s.Version.GoVersion+strings.Join(of, " "))))
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
		paths[docPath(gv)] = link{"/openapi/v3/" + docPath(gv) + "?hash=" + k.server.hash(gv.String())}
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
		return k.document("v3 "+asked, k.server.hash(gv.String()), plain, "v3", protoV3, protoOfV3)
	}
	if k.server.Aggregate != nil {
		for gv, at := range k.server.Aggregate.Documents() {
			if docPath(gv) == asked {
				return k.elsewheresV3(gv, at)
			}
		}
	}
	return pathNotFound()
}

// elsewheresV3 is the document of what a backend serves: by itself, or made of its
// version 2. Where it lies names its state.
func (k *call) elsewheresV3(gv schema.GroupVersion, at string) error {
	converted := k.server.Aggregate.Converted(gv)
	if converted == nil {
		k.handOn(gv, false)
		return nil
	}
	plain := func() ([]byte, error) { return json.Marshal(converted) }
	return k.document("v3 "+docPath(gv), k.server.hash(at), plain, "v3", protoV3, protoOfV3)
}

func (k *call) openAPIv2() error {
	s := k.server
	own := func() ([]byte, error) {
		return s.docs.get("v2 own", "", func() ([]byte, error) { return json.Marshal(openapi.V2(versions(), s.Version.GitVersion)) })
	}
	parts := s.parts()
	if len(parts) == 0 {
		return k.document("v2", s.hash(), own, "v2", protoV2, protoOfV2)
	}
	var hashes []string
	for _, p := range parts {
		hashes = append(hashes, p.Of.String(), p.Hash)
	}
	merged := func() ([]byte, error) {
		data, err := own()
		if err != nil {
			return nil, err
		}
		return openapi.Merge(data, parts, func(out openapi.Part, err error) {
			s.Log.Warn("the OpenAPI v2 document of an APIService is left out", "apiservice", out.Of.Version+"."+out.Of.Group, "err", err)
		})
	}
	return k.document("v2", s.hash(hashes...), merged, "v2", protoV2, protoOfV2)
}

// parts describe in version 2 what others serve, without what Berth serves itself.
func (s *server) parts() []openapi.Part {
	if s.Aggregate == nil {
		return nil
	}
	return slices.DeleteFunc(s.Aggregate.Swaggers(), func(p openapi.Part) bool { return slices.Contains(versions(), p.Of) })
}

// document answers with a document in the form that the client wants.
func (k *call) document(name, hash string, plain func() ([]byte, error), version, protoType string, toProto func([]byte) ([]byte, error)) error {
	etag := `"` + hash + `"`
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
	data, err := k.server.docs.get(name, hash, plain)
	media := "application/json"
	if err == nil && k.wantsProto(version) {
		media = protoType
		data, err = k.server.docs.get(name+" proto", hash, func() ([]byte, error) { return toProto(data) })
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
