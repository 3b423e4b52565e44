package apitest

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
)

// Server is a running API.
type Server struct {
	Registry *registry.Registry
	Store    *store.Store
	// URL of the server.
	URL string
	// CA is its certificate in PEM.
	CA []byte
	// Handler is what answers, without the network.
	Handler http.Handler
	http    *httptest.Server
}

// Option changes how a server is made.
type Option func(*Parts)

// Parts are what a server is made of.
type Parts struct {
	Store    store.Options
	Registry registry.Config
	API      api.Config
	// Prepare is called when the store is open and the rest is yet to be made.
	Prepare []func(*Parts)
}

// WithStore opens the store with options.
func WithStore(o store.Options) Option {
	return func(p *Parts) { p.Store = o }
}

// With prepares the parts when the store is open.
func With(prepare func(*Parts)) Option {
	return func(p *Parts) { p.Prepare = append(p.Prepare, prepare) }
}

// Start runs a server until the test ends. The namespace default is there.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	return StartOn(t, store.NewMemory(), options...)
}

// StartOn runs a server over an engine.
func StartOn(t testing.TB, engine store.Engine, options ...Option) *Server {
	t.Helper()
	parts := &Parts{}
	for _, o := range options {
		o(parts)
	}
	parts.Store.Indexes = registry.Indexes()
	st, err := store.Open(t.Context(), engine, kind.Codec{}, parts.Store)
	if err != nil {
		t.Fatal(err)
	}
	parts.Registry.Store = st
	for _, prepare := range parts.Prepare {
		prepare(parts)
	}
	reg := registry.New(parts.Registry)
	parts.API.Registry = reg
	handler, err := api.New(parts.API)
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handler)
	server.EnableHTTP2 = true
	server.TLS = &tls.Config{MinVersion: tls.VersionTLS13}
	server.StartTLS()
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	s := &Server{Registry: reg, Store: st, URL: server.URL, Handler: handler, http: server,
		CA: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
	s.Namespace(t, "default")
	return s
}

// Namespace makes a namespace, if it isn't there.
func (s *Server) Namespace(t testing.TB, name string) {
	t.Helper()
	_, err := s.Registry.Create(context.Background(), registry.On("namespaces", "", ""), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
}

// Config is a client's, in JSON unless contentType says otherwise.
func (s *Server) Config(contentType string) *rest.Config {
	return &rest.Config{
		Host: s.URL, TLSClientConfig: rest.TLSClientConfig{CAData: s.CA}, QPS: -1,
		ContentConfig: rest.ContentConfig{ContentType: contentType},
	}
}

// CloseConnections breaks the connections of all clients.
func (s *Server) CloseConnections() { s.http.CloseClientConnections() }
