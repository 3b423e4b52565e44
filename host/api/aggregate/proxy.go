package aggregate

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/proxy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
	"k8s.io/streaming/pkg/httpstream"
)

// Serves tells whether an APIService names a backend for a group and version.
func (a *Aggregator) Serves(r *http.Request, gv schema.GroupVersion) bool {
	return a.service(r.Context(), gv) != nil
}

// Forward has the backend of a group and version answer in the name of who. The
// request is authorized.
func (a *Aggregator) Forward(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion, who user.Info) {
	s := a.service(r.Context(), gv)
	if s == nil || !helper.IsAPIServiceConditionTrue(s, apiregistrationv1.Available) {
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	if _, err := a.endpoint(r.Context(), s.Spec.Service); err != nil {
		a.Log.Debug("no endpoint of an APIService", "apiservice", s.Name, "err", err)
		http.Error(w, "service unavailable", http.StatusServiceUnavailable)
		return
	}
	b := a.backend(s)
	select {
	case b.seats <- struct{}{}:
		defer func() { <-b.seats }()
	default:
		w.Header().Set("Retry-After", "1")
		http.Error(w, "too many requests to "+s.Name, http.StatusTooManyRequests)
		return
	}
	to := location(s.Spec.Service, r.URL)
	out := r.Clone(r.Context())
	out.URL, out.Host = to, to.Host
	clean(out.Header)
	transport.SetAuthProxyHeaders(out, who.GetName(), who.GetUID(), who.GetGroups(), who.GetExtra())
	handler := proxy.NewUpgradeAwareHandler(to, b.transport, false, httpstream.IsUpgradeRequest(r), responder{})
	handler.RejectForwardingRedirects = true
	handler.ServeHTTP(w, out)
}

// location is where the service is asked: a name that its certificate has, and
// that nobody looks up.
func location(at *apiregistrationv1.ServiceReference, asked *url.URL) *url.URL {
	return &url.URL{
		Scheme: "https", Host: at.Name + "." + at.Namespace + ".svc:" + strconv.Itoa(int(*at.Port)),
		Path: asked.Path, RawQuery: asked.RawQuery,
	}
}

// clean takes away what users say of who they are.
func clean(header http.Header) {
	for name := range header {
		if strings.HasPrefix(name, "X-Remote-") || strings.HasPrefix(name, "Impersonate-") || name == "Authorization" || name == "Cookie" {
			header.Del(name)
		}
	}
}

// responder tells clients of a backend that fails.
type responder struct{}

// Error implements proxy.ErrorResponder.
func (responder) Error(w http.ResponseWriter, _ *http.Request, err error) {
	http.Error(w, err.Error(), http.StatusServiceUnavailable)
}
