package api_test

import (
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/apitest"
)

// TestPodSecurityReachesItsReaders: the client by a header, the auditor by the
// log.
func TestPodSecurityReachesItsReaders(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	audited := map[string]map[string]string{}
	s := apitest.Start(t, apitest.With(prepare(t)), apitest.With(func(p *apitest.Parts) {
		p.API.Audit = func(a *api.Audited) {
			mu.Lock()
			defer mu.Unlock()
			audited[a.Request.URL.Path] = a.Annotations
		}
	}))
	c := &curl{t, s, httpClient(t, s), client(t, s, "")}
	const kind = "Content-Type"
	c.ask("POST", "/api/v1/namespaces", `{"metadata":{"name":"own","labels":{
		"pod-security.kubernetes.io/warn":"restricted","pod-security.kubernetes.io/audit":"baseline"}}}`, kind, "application/json")
	answer, body := c.ask("POST", "/api/v1/namespaces/own/pods", `{"metadata":{"name":"p"},"spec":{"hostNetwork":true,"containers":[{"name":"c","image":"i"}]}}`, kind, "application/json")
	if answer.StatusCode != 201 {
		t.Fatalf("%d %v", answer.StatusCode, body)
	}
	if got := answer.Header.Get("Warning"); !strings.HasPrefix(got, `299 - "would violate PodSecurity \"restricted:latest\": host namespaces`) {
		t.Errorf("Warning: %s", got)
	}
	mu.Lock()
	defer mu.Unlock()
	got := audited["/api/v1/namespaces/own/pods"]
	if !strings.HasPrefix(got["pod-security.kubernetes.io/audit-violations"], `would violate PodSecurity "baseline:latest": host namespaces`) ||
		got["pod-security.kubernetes.io/enforce-policy"] != "privileged:latest" {
		t.Errorf("audited: %v", got)
	}
}
