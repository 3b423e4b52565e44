package stream

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Objects is what streams read of the store.
type Objects interface {
	Get(ctx context.Context, key store.Key) (store.Object, error)
	List(ctx context.Context, resource, namespace string) ([]store.Object, error)
}

// Config is what streams stand on. All but Log are required.
type Config struct {
	Objects Objects
	// May decides on exec, attach and port-forward once more, as "create":
	// a WebSocket comes as a GET, which weaker roles allow.
	May authorizer.Authorizer
	// Certificate is the host's own, shown to the agents.
	Certificate func() (*tls.Certificate, error)
	// Agents signs the agents' certificates.
	Agents *x509.CertPool
	Log    *slog.Logger
}

// Streams proxies to node agents.
//
// It is large because logs, exec, attach, port-forward and the proxies are
// files of their own over one way to the agents.
type Streams struct {
	objects   Objects
	may       authorizer.Authorizer
	log       *slog.Logger
	agents    *http.Transport
	workloads *http.Transport
	timeout   time.Duration
}

// New makes the proxy. Close ends its idle connections.
func New(c Config) *Streams {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	s := &Streams{objects: c.Objects, may: c.May, log: c.Log, timeout: timeout}
	s.agents = &http.Transport{
		DialContext: s.dialNode,
		TLSClientConfig: &tls.Config{
			MinVersion: tls.VersionTLS12,
			RootCAs:    c.Agents,
			GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				return c.Certificate()
			},
		},
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
	}
	s.workloads = &http.Transport{
		DialContext:         (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext,
		TLSClientConfig:     &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // a pod's certificate is its own affair, as in Kubernetes
		TLSHandshakeTimeout: 10 * time.Second,
		MaxIdleConnsPerHost: 4,
		IdleConnTimeout:     time.Minute,
	}
	return s
}

// Close ends idle connections.
func (s *Streams) Close() {
	s.agents.CloseIdleConnections()
	s.workloads.CloseIdleConnections()
}

// Target is what a request is about, as the API parsed it from the path.
type Target struct {
	Resource    string // pods, services or nodes
	Namespace   string
	Name        string // for services and proxies perhaps SCHEME:NAME:PORT
	Subresource string // log, exec, attach, portforward or proxy
	Path        string // what follows …/proxy, with its first slash
	User        user.Info
}

// ServeHTTP answers r for the target. The caller has authenticated and
// authorized the request. w must be able to hijack, except for logs.
//
// Errors are written as Status objects.
func (s *Streams) ServeHTTP(w http.ResponseWriter, r *http.Request, t Target) {
	clean(r.Header)
	if err := s.serve(w, r, t); err != nil {
		s.log.Debug("stream refused", "resource", t.Resource, "name", t.Namespace+"/"+t.Name, "subresource", t.Subresource, "err", err)
		refuse(w, err)
	}
}

func (s *Streams) serve(w http.ResponseWriter, r *http.Request, t Target) error {
	switch t.Resource + "/" + t.Subresource {
	case "pods/log":
		return s.logs(w, r, t)
	case "pods/exec":
		return s.exec(w, r, t)
	case "pods/attach":
		return s.attach(w, r, t)
	case "pods/portforward":
		return s.portForward(w, r, t)
	case "pods/proxy":
		return s.proxyPod(w, r, t)
	case "services/proxy":
		return s.proxyService(w, r, t)
	case "nodes/proxy":
		return s.proxyNode(w, r, t)
	}
	return apierrors.NewNotFound(schema.GroupResource{Resource: t.Resource + "/" + t.Subresource}, t.Name)
}

// clean takes from the headers what proves the client's identity: it is meant
// for the host, and nobody behind may use it.
func clean(header http.Header) {
	header.Del("Authorization")
	header.Del("Cookie")
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			header.Del(name)
		}
	}
}

// mayCreate asks whether the user may open the stream, whatever its method.
func (s *Streams) mayCreate(ctx context.Context, t Target) error {
	decision, reason, err := s.may.Authorize(ctx, authorizer.AttributesRecord{
		User: t.User, Verb: "create", APIVersion: "v1", Resource: t.Resource, Subresource: t.Subresource,
		Namespace: t.Namespace, Name: t.Name, ResourceRequest: true,
	})
	if err == nil && decision == authorizer.DecisionAllow {
		return nil
	}
	name := ""
	if t.User != nil {
		name = t.User.GetName()
	}
	return apierrors.NewForbidden(schema.GroupResource{Resource: t.Resource}, t.Name,
		fmt.Errorf("user %q cannot create resource %q in the namespace %q %s", name, t.Resource+"/"+t.Subresource, t.Namespace, reason))
}
