package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/berth-dev/berth/host/api/openapi"
	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/kube-openapi/pkg/spec3"
	metricsv1beta1 "k8s.io/metrics/pkg/apis/metrics/v1beta1"
)

// Config is what the API is made of. Registry is required.
type Config struct {
	Registry *registry.Registry
	// Authenticator tells who asks. Nil takes everybody for the host itself,
	// which is for tests.
	Authenticator authenticator.Request
	// Impersonate tells as whom the sender of a request asks, who is itself where it
	// names nobody. An error becomes the answer. Nil goes by the sender.
	Impersonate func(r *http.Request, sender user.Info) (user.Info, error)
	// Authorizer tells who may what; nil allows everything.
	Authorizer authorizer.Authorizer
	// Reviewer answers token, subject and access reviews; nil answers 404.
	Reviewer registry.Reviewer
	// Metrics answers metrics.k8s.io; nil answers 404.
	Metrics Metrics
	// Connectors answer subresources that are streams or proxies, by
	// "resource/subresource": "pods/log", "pods/exec", "pods/explain".
	Connectors map[string]Connector
	// Uploads are of the kinds whose objects may come as raw bytes, by store
	// resource.
	Uploads map[string]Upload
	// Aggregate answers groups and versions that no kind is served in; nil has
	// none.
	Aggregate Aggregate
	// Fairness may hold back or refuse requests; nil lets all through.
	Fairness Fairness
	// Audit hears of every answer; nil hears nothing.
	Audit func(*Audited)
	// Routes are further ones, by "METHOD /path" in echo's notation.
	Routes map[string]Route
	// Ready is asked by /readyz; nil is always ready.
	Ready func() error
	Log   *slog.Logger
	// Version is what /version tells; empty is DefaultVersion.
	Version version.Info
}

// Route is a raw path beside the API.
type Route struct {
	Handler http.Handler
	// Public routes are served to whoever asks; others are authorized as
	// requests for a path, as Kubernetes does with non-resource URLs.
	Public bool
}

// Connection is a stream or a proxied request on its way to a connector.
type Connection struct {
	*registry.Request
	// Object is the pod, node or service that it is for.
	Object store.Object
	// Path is what follows the subresource in the URL: "/a/b" of …/proxy/a/b.
	Path string
}

// Connector answers a connection. An error becomes the answer if nothing has
// been written yet.
type Connector func(w http.ResponseWriter, r *http.Request, c *Connection) error

// Upload is how objects of a kind come as raw bytes.
type Upload struct {
	// MediaType is what the bytes are.
	MediaType string
	// Take reads them and returns the object that they are stored as. The request
	// is authorized, and its body is not limited yet.
	Take func(ctx context.Context, r *http.Request, about *registry.Request) (store.Object, error)
	// TooLarge is told of an object that comes in the usual way and is too large.
	TooLarge string
}

// Metrics gives what node agents report of use. The empty namespace is all.
type Metrics interface {
	NodeMetrics(ctx context.Context) ([]metricsv1beta1.NodeMetrics, error)
	PodMetrics(ctx context.Context, namespace string) ([]metricsv1beta1.PodMetrics, error)
}

// Aggregate hands requests on to those who registered an APIService.
type Aggregate interface {
	// Serves tells whether somebody answers for the group and version.
	Serves(r *http.Request, gv schema.GroupVersion) bool
	// Forward has them answer in the name of who, who may ask.
	Forward(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion, who user.Info)
	// Groups are what they serve, as discovery shows it. It waits for nobody.
	Groups() []discoveryv2.APIGroupDiscovery
	// Documents are the paths of their OpenAPI v3 documents, which Forward answers,
	// but for those that Converted makes. It waits for nobody.
	Documents() map[schema.GroupVersion]string
	// Converted is the document of who has OpenAPI v2 alone, nil of others.
	Converted(gv schema.GroupVersion) *spec3.OpenAPI
	// Swaggers are what they say in OpenAPI v2, in the order of Groups.
	Swaggers() []openapi.Part
}

// Fairness shares the server between its clients. Enter blocks until the
// request may run and is told by leave that it is done; streams leave as soon
// as they have begun. An error becomes the answer, 429 if it is no API error.
type Fairness interface {
	Enter(ctx context.Context, who user.Info, about *apirequest.RequestInfo) (leave func(), err error)
	// Hold counts a watch or stream against what its client may have open, until
	// it is released. A watch writes to its client by turn, which may wait. An error
	// becomes the answer.
	Hold(who user.Info) (release func(), turn func(write func()), err error)
}

// Audited is one answered request.
type Audited struct {
	// ID is what the request calls itself, or else is called.
	ID    string
	Begun time.Time
	Took  time.Duration
	// User is who sent it, nil where nobody knows; Impersonated is as whom it was
	// answered, nil where that is the same.
	User, Impersonated user.Info

	About   *apirequest.RequestInfo
	Request *http.Request
	Code    int
	// Annotations are what admission has to say to those who read the log.
	Annotations map[string]string
}

// DefaultVersion names the Kubernetes that Berth's API is. Some installed
// kubectls pick the client that they run by it.
var DefaultVersion = version.Info{
	Major: "1", Minor: "36", EmulationMajor: "1", EmulationMinor: "36", MinCompatibilityMajor: "1", MinCompatibilityMinor: "35",
	GitVersion: "v1.36.3", GitTreeState: "clean", Compiler: "gc",
}
