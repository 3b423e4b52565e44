package custommetrics

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"

	discoveryv2 "k8s.io/api/apidiscovery/v2"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/metrics/pkg/client/custom_metrics"
	"k8s.io/metrics/pkg/client/external_metrics"
)

// maxBytes bounds an adapter's answer.
const maxBytes = 1 << 20

const customGroup = "custom.metrics.k8s.io"

// Aggregate reaches the backends of APIServices.
type Aggregate interface {
	Groups() []discoveryv2.APIGroupDiscovery
	Serves(r *http.Request, gv schema.GroupVersion) bool
	Forward(w http.ResponseWriter, r *http.Request, gv schema.GroupVersion, who user.Info)
}

// Adapters are the backends as a user reaches them.
type Adapters struct {
	Aggregate Aggregate
	// Who asks, and May is nil where that is allowed.
	Who user.Info
	May func(ctx context.Context, asks authorizer.Attributes) error
	// Resource is what the API calls a kind that it stores.
	Resource func(schema.GroupKind) (string, bool)
}

// Client asks the adapters, by Kubernetes' own client.
func (a *Adapters) Client() (metrics.MetricsClient, error) {
	config := &rest.Config{Host: "http://adapters", Transport: a, Timeout: within, QPS: -1, WarningHandler: rest.NoWarnings{}}
	external, err := external_metrics.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return metrics.NewRESTMetricsClient(nil, custom_metrics.NewForConfig(config, mapper{Adapters: a}, a), external), nil
}

// PreferredVersion implements custom_metrics.AvailableAPIsGetter.
func (a *Adapters) PreferredVersion() (schema.GroupVersion, error) {
	for _, group := range a.Aggregate.Groups() {
		if group.Name != customGroup {
			continue
		}
		for i := range group.Versions {
			gv := schema.GroupVersion{Group: customGroup, Version: group.Versions[i].Version}
			if slices.Contains(custom_metrics.MetricVersions, gv) {
				return gv, nil
			}
		}
		return schema.GroupVersion{}, errors.New("no known available metric versions found")
	}
	return schema.GroupVersion{}, errors.New("no custom metrics API (" + customGroup + ") registered")
}

// Invalidate implements custom_metrics.AvailableAPIsGetter: nothing is remembered.
func (a *Adapters) Invalidate() {}

// mapper finds the resources of described objects, also of those that others serve.
type mapper struct {
	meta.RESTMapper
	*Adapters
}

// RESTMapping implements meta.RESTMapper.
func (m mapper) RESTMapping(gk schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if name, ok := m.Resource(gk); ok {
		return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: gk.Group, Resource: name}}, nil
	}
	for _, group := range m.Aggregate.Groups() {
		if group.Name != gk.Group {
			continue
		}
		for i := range group.Versions {
			for _, r := range group.Versions[i].Resources {
				if r.ResponseKind != nil && r.ResponseKind.Kind == gk.Kind {
					return &meta.RESTMapping{Resource: schema.GroupVersionResource{Group: gk.Group, Resource: r.Resource}}, nil
				}
			}
		}
	}
	return nil, &meta.NoKindMatchError{GroupKind: gk, SearchedVersions: versions}
}

var requests = request.RequestInfoFactory{APIPrefixes: sets.NewString("apis"), GrouplessAPIPrefixes: sets.NewString()}

// RoundTrip implements http.RoundTripper: the way of a user's request, without the
// network.
func (a *Adapters) RoundTrip(r *http.Request) (*http.Response, error) {
	info, err := requests.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	gv := schema.GroupVersion{Group: info.APIGroup, Version: info.APIVersion}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	w := &recorder{header: http.Header{}, code: http.StatusOK, cancel: cancel}
	err = a.May(ctx, authorizer.AttributesRecord{
		User: a.Who, Verb: info.Verb, Namespace: info.Namespace, APIGroup: info.APIGroup, APIVersion: info.APIVersion,
		Resource: info.Resource, Subresource: info.Subresource, Name: info.Name, ResourceRequest: true, Path: r.URL.Path,
	})
	switch {
	case err != nil:
		w.refuse(err)
	case !a.Aggregate.Serves(r, gv):
		http.Error(w, "404 page not found", http.StatusNotFound)
	default:
		a.Aggregate.Forward(w, r.WithContext(ctx), gv, a.Who)
	}
	if w.over {
		return nil, fmt.Errorf("the answer is longer than %d bytes", maxBytes)
	}
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	w.header.Del("Retry-After") // the next look asks again
	return &http.Response{
		StatusCode: w.code, Status: http.StatusText(w.code), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: w.header, Body: io.NopCloser(&w.body), ContentLength: int64(w.body.Len()), Request: r,
	}, nil
}

// recorder keeps an answer of bounded length.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
	over   bool
	cancel func()
}

// Header implements http.ResponseWriter.
func (w *recorder) Header() http.Header { return w.header }

// WriteHeader implements http.ResponseWriter.
func (w *recorder) WriteHeader(code int) { w.code = code }

// Write implements http.ResponseWriter.
func (w *recorder) Write(data []byte) (int, error) {
	if w.body.Len()+len(data) > maxBytes {
		w.over = true
		w.cancel()
		return 0, io.ErrShortBuffer
	}
	return w.body.Write(data)
}

func (w *recorder) refuse(err error) {
	status := apierrors.APIStatus(apierrors.NewInternalError(err))
	if s := (*apierrors.StatusError)(nil); errors.As(err, &s) {
		status = s
	}
	s := status.Status()
	s.Kind, s.APIVersion = "Status", "v1"
	text, _ := json.Marshal(s)
	w.header.Set("Content-Type", "application/json")
	w.WriteHeader(int(s.Code))
	_, _ = w.Write(text)
}
