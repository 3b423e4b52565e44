package walk_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// curl sends what curl would with the kubeconfig's certificate, and decodes
// the answer into out.
func (c *cluster) curl(t *testing.T, method, path, contentType string, body []byte, out any) int {
	t.Helper()
	client, err := rest.HTTPClientFor(c.rest)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), method, c.rest.Host+path, bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if contentType != "" {
		req.Header.Set("Content-Type", contentType)
	}
	resp, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatalf("%s %s: %s: %v:\n%s", method, path, resp.Status, err, data)
	}
	return resp.StatusCode
}

const policyAPI = "/apis/policy.berth.dev/v1alpha1/"

func (c *cluster) testPlainHTTP(t *testing.T, file string) {
	const asJSON = "application/json"
	wasm, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var module v1alpha1.Module
	if code := c.curl(t, "POST", policyAPI+"modules", "application/wasm", wasm, &module); code/100 != 2 {
		t.Fatalf("upload: %d %+v", code, module)
	}
	policy := `{"apiVersion":"policy.berth.dev/v1alpha1","kind":"Policy","metadata":{"name":"by-curl"},
		"spec":{"entry":"Fill","module":"` + module.Name + `"}}`
	var made v1alpha1.Policy
	if code := c.curl(t, "POST", policyAPI+"policies", asJSON, []byte(policy), &made); code != http.StatusCreated {
		t.Fatalf("POST Policy: %d", code)
	}
	eventually(t, "the policy is live", func() bool {
		c.curl(t, "GET", policyAPI+"policies/by-curl", "", nil, &made)
		return made.Status.Phase == "Live"
	})
	var profile v1alpha1.Profile
	c.curl(t, "GET", policyAPI+"profiles/default", "", nil, &profile)
	profile.Spec.Priorities = append(profile.Spec.Priorities, v1alpha1.ProfilePriority{Name: "by-curl", Weight: 2})
	data, err := json.Marshal(profile)
	if err != nil {
		t.Fatal(err)
	}
	if code := c.curl(t, "PUT", policyAPI+"profiles/default", asJSON, data, &profile); code != http.StatusOK {
		t.Fatalf("PUT Profile: %d", code)
	}
	eventually(t, "the profile is live", func() bool {
		c.curl(t, "GET", policyAPI+"profiles/default", "", nil, &profile)
		return profile.Status.ObservedGeneration == profile.Generation
	})
	pod := "apiVersion: v1\nkind: Pod\nmetadata: {name: curled}\nspec: {containers: [{name: c, image: example.test/app:1}]}\n"
	if code := c.curl(t, "POST", "/api/v1/namespaces/default/pods", "application/yaml", []byte(pod), &v1.Pod{}); code != http.StatusCreated {
		t.Fatalf("POST Pod: %d", code)
	}
	c.awaitPod(t, "curled", "runs", isRunning)
	var list v1.PodList
	c.curl(t, "GET", "/api/v1/namespaces/default/pods?fieldSelector=metadata.name%3Dcurled", "", nil, &list)
	if len(list.Items) != 1 || list.Items[0].Name != "curled" {
		t.Errorf("GET pods lists %d, want curled", len(list.Items))
	}
	if !slices.ContainsFunc(c.report(t, "curled").Priorities, func(p explain.Priority) bool { return p.Name == "by-curl" && p.Weight == 2 }) {
		t.Error("the activated policy has not scored the next pod")
	}
}

func (c *cluster) testBadInput(t *testing.T) {
	c.must(t, c.kubectl, "create", "namespace", "bad-input")
	const containers = `"spec":{"containers":[{"name":"c","image":"example.test/app:1"}]}`
	for _, bad := range []struct {
		name, contentType, query, body string
		code                           int
		names                          string
	}{
		{"broken JSON", "application/json", "", `{"apiVersion":"v1","kind":"Pod","metadata":{`, 400, "JSON"},
		{"broken YAML", "application/yaml", "", "apiVersion: v1\nkind: Pod\nmetadata: [", 400, "yaml"},
		{"no object at all", "application/json", "", ``, 400, ""},
		{"a type that nobody serves", "text/html", "", `<p>pod</p>`, 415, "application/yaml"},
		{"another kind", "application/json", "", `{"apiVersion":"v1","kind":"Service","metadata":{"name":"x"}}`, 400, "Service"},
		{"an unknown field", "application/json", "?fieldValidation=Strict", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"colour":1,` + containers + `}`, 400, `unknown field "colour"`},
		{"a wrong type", "application/json", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"},"spec":{"containers":"many"}}`, 400, "containers"},
		{"a wrong type in YAML", "application/yaml", "", "apiVersion: v1\nkind: Pod\nmetadata: {name: x}\nspec: {containers: [{name: c, image: i, command: 3}]}\n", 400, "command"},
		{"an over-long name", "application/json", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"` + strings.Repeat("x", 254) + `"},` + containers + `}`, 422, "metadata.name"},
		{"no containers", "application/json", "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"x"}}`, 422, "spec.containers"},
	} {
		t.Run(bad.name, func(t *testing.T) {
			var status metav1.Status
			code := c.curl(t, "POST", "/api/v1/namespaces/bad-input/pods"+bad.query, bad.contentType, []byte(bad.body), &status)
			if code != bad.code || status.Kind != "Status" || int(status.Code) != code || status.Status != metav1.StatusFailure {
				t.Errorf("answer = %d %+v, want a Status with %d", code, status, bad.code)
			}
			if !strings.Contains(status.Message, bad.names) {
				t.Errorf("message = %q, want it to name %q", status.Message, bad.names)
			}
			var list v1.PodList
			if c.curl(t, "GET", "/api/v1/namespaces/bad-input/pods", "", nil, &list); len(list.Items) != 0 {
				t.Errorf("%d pods are stored, want none", len(list.Items))
			}
		})
	}
}
