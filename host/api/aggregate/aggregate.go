package aggregate

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// What is read of the store.
const (
	resource       = "apiservices.apiregistration.k8s.io"
	services       = "services"
	endpointSlices = "endpointslices.discovery.k8s.io"
)

const (
	// answerWithin is how long a backend may take to begin an answer.
	answerWithin = time.Minute
	// atOnce bounds the requests that one backend answers side by side, watches
	// included.
	atOnce = 400
)

// Objects is what is read of the store.
type Objects interface {
	Get(ctx context.Context, key store.Key) (store.Object, error)
	List(ctx context.Context, resource, namespace string) ([]store.Object, error)
	// Version grows whenever an object of the resource changes.
	Version(resource string) int64
}

// Config is what the aggregator needs. Objects and Registry are required.
type Config struct {
	Objects Objects
	// Certificate is the front proxy's, by which backends believe the headers that
	// name the user; nil shows none.
	Certificate func() (*tls.Certificate, error)
	// Registry is what APIServices are written by.
	Registry *registry.Registry
	// Dial reaches an endpoint; nil is the network.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	Log  *slog.Logger
}

// Aggregator knows the backends.
type Aggregator struct {
	Config
	mu       sync.Mutex
	backends map[string]*backend // by the APIService's name
	found    map[string]found    // likewise
}

// backend is who answers an APIService of one spec.
type backend struct {
	uid       string
	spec      *apiregistrationv1.APIServiceSpec
	transport *http.Transport
	seats     chan struct{}
}

// New makes an aggregator; Run keeps the conditions of APIServices true.
func New(c Config) *Aggregator {
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	if c.Dial == nil {
		c.Dial = (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second, Control: control}).DialContext
	}
	return &Aggregator{Config: c, backends: map[string]*backend{}, found: map[string]found{}}
}

// service is the APIService of a group and version, nil where it has none or is
// local.
func (a *Aggregator) service(ctx context.Context, gv schema.GroupVersion) *apiregistrationv1.APIService {
	object, err := a.Objects.Get(ctx, store.Key{Resource: resource, Name: gv.Version + "." + gv.Group})
	if err != nil {
		return nil
	}
	s, ok := object.(*apiregistrationv1.APIService)
	if !ok || s.Spec.Service == nil {
		return nil
	}
	return s
}

// backend is who answers for the service now. One whose spec changed is left to
// those that still talk to it.
func (a *Aggregator) backend(s *apiregistrationv1.APIService) *backend {
	a.mu.Lock()
	defer a.mu.Unlock()
	b := a.backends[s.Name]
	if b != nil && b.uid == string(s.UID) && b.same(&s.Spec) {
		return b
	}
	if b != nil {
		b.transport.CloseIdleConnections()
	}
	b = &backend{uid: string(s.UID), spec: s.Spec.DeepCopy(), seats: make(chan struct{}, atOnce)}
	b.transport = a.transport(b.spec)
	a.backends[s.Name] = b
	return b
}

func (b *backend) same(spec *apiregistrationv1.APIServiceSpec) bool {
	return *b.spec.Service.Port == *spec.Service.Port && b.spec.Service.Name == spec.Service.Name && b.spec.Service.Namespace == spec.Service.Namespace &&
		b.spec.InsecureSkipTLSVerify == spec.InsecureSkipTLSVerify && string(b.spec.CABundle) == string(spec.CABundle)
}

// forget drops the backends of APIServices that are gone.
func (a *Aggregator) forget(present map[string]bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for name, b := range a.backends {
		if !present[name] {
			b.transport.CloseIdleConnections()
			delete(a.backends, name)
		}
	}
	for name := range a.found {
		if !present[name] {
			delete(a.found, name)
		}
	}
}

// transport connects to an endpoint of the service, whatever its address, and
// wants a certificate of the service's name.
func (a *Aggregator) transport(spec *apiregistrationv1.APIServiceSpec) *http.Transport {
	trust := &tls.Config{MinVersion: tls.VersionTLS12, InsecureSkipVerify: spec.InsecureSkipTLSVerify} //nolint:gosec // who registers the service says so
	if len(spec.CABundle) > 0 {
		trust.RootCAs = x509.NewCertPool()
		trust.RootCAs.AppendCertsFromPEM(spec.CABundle)
	}
	if a.Certificate != nil {
		trust.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return a.Certificate() }
	}
	return &http.Transport{
		TLSClientConfig: trust, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: answerWithin, MaxResponseHeaderBytes: 64 << 10,
		MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			address, err := a.endpoint(ctx, spec.Service)
			if err != nil {
				return nil, err
			}
			return a.Dial(ctx, network, address)
		},
	}
}

// problem is why a service cannot be reached, as a condition tells it.
type problem struct{ reason, message string }

func (p problem) Error() string { return p.message }

// endpoint picks a ready endpoint of the service, at random. The host need not be
// a node: it reaches pods by their addresses, as its proxies do.
func (a *Aggregator) endpoint(ctx context.Context, at *apiregistrationv1.ServiceReference) (string, error) {
	object, err := a.Objects.Get(ctx, store.Key{Resource: services, Namespace: at.Namespace, Name: at.Name})
	service, ok := object.(*corev1.Service)
	if errors.Is(err, store.ErrNotFound) || err == nil && !ok {
		return "", problem{"ServiceNotFound", fmt.Sprintf("service/%s in %q is not present", at.Name, at.Namespace)}
	}
	if err != nil {
		return "", problem{"ServiceAccessError", fmt.Sprintf("service/%s in %q cannot be checked due to: %v", at.Name, at.Namespace, err)}
	}
	if service.Spec.Type == corev1.ServiceTypeExternalName {
		return net.JoinHostPort(service.Spec.ExternalName, strconv.Itoa(int(*at.Port))), nil
	}
	name, found := "", false
	for _, p := range service.Spec.Ports {
		if p.Port == *at.Port {
			name, found = p.Name, true
			break
		}
	}
	if !found {
		return "", problem{"ServicePortError", fmt.Sprintf("service/%s in %q is not listening on port %d", at.Name, at.Namespace, *at.Port)}
	}
	return a.ready(ctx, at, name)
}

func (a *Aggregator) ready(ctx context.Context, at *apiregistrationv1.ServiceReference, port string) (string, error) {
	objects, err := a.Objects.List(ctx, endpointSlices, at.Namespace)
	if err != nil {
		return "", problem{"EndpointsAccessError", fmt.Sprintf("service/%s in %q cannot be checked due to: %v", at.Name, at.Namespace, err)}
	}
	var addresses []string
	sliced := false
	for _, o := range objects {
		slice, ok := o.(*discoveryv1.EndpointSlice)
		if !ok || slice.Labels[discoveryv1.LabelServiceName] != at.Name {
			continue
		}
		sliced = true
		addresses = append(addresses, readyIn(slice, port)...)
	}
	switch {
	case !sliced:
		return "", problem{"EndpointsNotFound", fmt.Sprintf("cannot find endpointslices for service/%s in %q", at.Name, at.Namespace)}
	case len(addresses) == 0:
		return "", problem{"MissingEndpoints", fmt.Sprintf("endpointslices for service/%s in %q have no addresses with port name %q", at.Name, at.Namespace, port)}
	}
	return addresses[rand.IntN(len(addresses))], nil
}

// elsewhere tells that an address does not lead to the host's own machine: who may
// write slices or external names must not reach what listens there.
func elsewhere(ip net.IP) bool {
	return !ip.IsLoopback() && !ip.IsUnspecified() && !ip.IsMulticast() && !ip.IsLinkLocalUnicast()
}

// control looks at the address that a name turned out to be.
func control(_, address string, _ syscall.RawConn) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return err
	}
	if ip := net.ParseIP(host); ip == nil || !elsewhere(ip) {
		return fmt.Errorf("address %s not allowed", host)
	}
	return nil
}

// readyIn are the addresses of ready endpoints, save those of the host's own
// machine.
func readyIn(slice *discoveryv1.EndpointSlice, port string) (addresses []string) {
	for _, p := range slice.Ports {
		if p.Port == nil || p.Name != nil && *p.Name != port || p.Name == nil && port != "" {
			continue
		}
		for i := range slice.Endpoints {
			e := &slice.Endpoints[i]
			if e.Conditions.Ready != nil && !*e.Conditions.Ready || len(e.Addresses) == 0 {
				continue
			}
			if ip := net.ParseIP(e.Addresses[0]); ip != nil && elsewhere(ip) {
				addresses = append(addresses, net.JoinHostPort(ip.String(), strconv.Itoa(int(*p.Port))))
			}
		}
	}
	return addresses
}
