package aggregate

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/transport"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
	"k8s.io/kube-aggregator/pkg/apis/apiregistration/v1/helper"
)

const (
	// look is the time between two looks at what changed, again that between two
	// checks of backends when nothing did.
	look  = time.Second
	again = 30 * time.Second
	// checkTime is how long a backend may take to tell what it serves.
	checkTime = 5 * time.Second
	// checks bounds the backends that are checked side by side.
	checks = 16
)

// Run keeps the local APIServices there, and the conditions of the others true,
// until ctx ends.
func (a *Aggregator) Run(ctx context.Context) error {
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	var seen [3]int64
	var checked time.Time
	for {
		if now := a.versions(); now != seen || time.Since(checked) >= again {
			seen, checked = now, time.Now()
			a.round(ctx)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticks.C:
		}
	}
}

func (a *Aggregator) versions() [3]int64 {
	return [3]int64{a.Objects.Version(resource), a.Objects.Version(services), a.Objects.Version(endpointSlices)}
}

// round checks every APIService once. A slow backend holds up nobody but the next
// round, and that for checkTime.
func (a *Aggregator) round(ctx context.Context) {
	if err := a.keepLocal(ctx); err != nil {
		a.Log.Warn("keep the local APIServices", "err", err)
	}
	objects, err := a.Objects.List(ctx, resource, "")
	if err != nil {
		a.Log.Warn("list APIServices", "err", err)
		return
	}
	seats := make(chan struct{}, checks)
	var running sync.WaitGroup
	present := map[string]bool{}
	for _, o := range objects {
		s, ok := o.(*apiregistrationv1.APIService)
		if !ok || s.Spec.Service == nil {
			continue
		}
		present[s.Name] = true
		seats <- struct{}{}
		running.Go(func() {
			defer func() { <-seats }()
			if err := a.settle(ctx, s); err != nil && ctx.Err() == nil {
				a.Log.Warn("write whether an APIService is available", "apiservice", s.Name, "err", err)
			}
		})
	}
	running.Wait()
	a.forget(present)
}

// settle writes the condition, if it is another.
func (a *Aggregator) settle(ctx context.Context, s *apiregistrationv1.APIService) error {
	now := a.condition(ctx, s)
	had := helper.GetAPIServiceConditionByType(s, apiregistrationv1.Available)
	if ctx.Err() != nil || had != nil && had.Status == now.Status && had.Reason == now.Reason && had.Message == now.Message {
		return nil
	}
	_, err := a.Registry.Modify(ctx, registry.On(resource, "", s.Name).Sub("status"), func(o store.Object) (store.Object, error) {
		next := o.DeepCopyObject().(*apiregistrationv1.APIService)
		if next.UID == s.UID && next.Spec.Service != nil {
			helper.SetAPIServiceCondition(next, now)
		}
		return next, nil
	})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (a *Aggregator) condition(ctx context.Context, s *apiregistrationv1.APIService) apiregistrationv1.APIServiceCondition {
	c := apiregistrationv1.APIServiceCondition{
		Type: apiregistrationv1.Available, Status: apiregistrationv1.ConditionTrue, LastTransitionTime: metav1.Now(),
		Reason: "Passed", Message: "all checks passed",
	}
	_, err := a.endpoint(ctx, s.Spec.Service)
	if err == nil {
		err = a.check(ctx, s)
	}
	if err == nil {
		return c
	}
	a.discovered(s, nil, described{})
	c.Status, c.Reason, c.Message = apiregistrationv1.ConditionFalse, "FailedDiscoveryCheck", err.Error()
	if p := (problem{}); errors.As(err, &p) {
		c.Reason, c.Message = p.reason, p.message
	}
	if c.Reason == "ServiceAccessError" || c.Reason == "EndpointsAccessError" {
		c.Status = apiregistrationv1.ConditionUnknown
	}
	return c
}

// check asks what the backend serves. Who does not tell in time, or sends without
// end, is not available.
func (a *Aggregator) check(ctx context.Context, s *apiregistrationv1.APIService) error {
	ctx, cancel := context.WithTimeout(ctx, checkTime)
	defer cancel()
	list := &metav1.APIResourceList{}
	if err := a.fetch(ctx, s, "/apis/"+s.Spec.Group+"/"+s.Spec.Version, "the list of resources", list); err != nil {
		return err
	}
	a.discovered(s, list, a.describe(ctx, s))
	return nil
}

// fetch reads JSON of a backend, as the host itself.
func (a *Aggregator) fetch(ctx context.Context, s *apiregistrationv1.APIService, path, what string, into any) error {
	data, _, err := a.get(ctx, s, path, what, "", maxDiscovery)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return fmt.Errorf("failing or missing response from %v: %w", location(s.Spec.Service, &url.URL{Path: path}), err)
	}
	return nil
}

// get reads what a backend answers, and its ETag, as the host itself. There is no
// data where it is what known names.
func (a *Aggregator) get(ctx context.Context, s *apiregistrationv1.APIService, path, what, known string, most int64) (data []byte, etag string, err error) {
	to := location(s.Spec.Service, &url.URL{Path: path})
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, to.String(), nil)
	if err != nil {
		return nil, "", err
	}
	transport.SetAuthProxyHeaders(r, "system:kube-aggregator", "", []string{"system:masters"}, nil)
	if known != "" {
		r.Header.Set("If-None-Match", known)
	}
	answer, err := a.backend(s).transport.RoundTrip(r)
	if err != nil {
		return nil, "", err
	}
	defer func() { _ = answer.Body.Close() }()
	if known != "" && answer.StatusCode == http.StatusNotModified {
		return nil, known, nil
	}
	if answer.StatusCode < http.StatusOK || answer.StatusCode >= http.StatusMultipleChoices {
		return nil, "", fmt.Errorf("bad status from %v: %d", to, answer.StatusCode)
	}
	data, err = io.ReadAll(io.LimitReader(answer.Body, most+1))
	if err == nil && int64(len(data)) > most {
		err = fmt.Errorf("%s is longer than %d bytes", what, most)
	}
	return data, answer.Header.Get("ETag"), err
}
