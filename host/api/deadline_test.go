package api_test

import (
	"context"
	"net/http"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/apitest"
	"github.com/berth-dev/berth/host/api/registry"
)

// hurry notes how long the last write might take.
type hurry struct{ left time.Duration }

func (h *hurry) Admit(ctx context.Context, a *registry.Attributes) error {
	if a.Resource.Resource == "configmaps" {
		until, _ := ctx.Deadline()
		h.left = time.Until(until)
	}
	return nil
}

func (h *hurry) Validate(context.Context, *registry.Attributes) error { return nil }

func TestARequestHasTheTimeThatItsClientAllows(t *testing.T) {
	t.Parallel()
	h := &hurry{}
	c := newCurl(t, apitest.With(func(p *apitest.Parts) { p.Registry.Admission = h }))
	for _, test := range []struct {
		timeout    string
		least, max time.Duration
	}{
		{"", 50 * time.Second, time.Minute},
		{"20s", time.Second, 20 * time.Second},
		{"0s", 50 * time.Second, time.Minute},
		{"1h", 50 * time.Second, time.Minute},
	} {
		answer, body := c.ask(http.MethodPost, maps+"?dryRun=All&timeout="+test.timeout, `{"metadata":{"name":"m"}}`, "Content-Type", "application/json")
		if answer.StatusCode != http.StatusCreated || h.left < test.least || h.left > test.max {
			t.Errorf("timeout=%s: %v, %v left, want %v to %v", test.timeout, body["message"], h.left, test.least, test.max)
		}
	}
	for _, path := range []string{maps, "/version", maps + "/m"} {
		if answer, _ := c.ask(http.MethodGet, path+"?timeout=5", ""); answer.StatusCode != http.StatusBadRequest {
			t.Errorf("%s?timeout=5 = %d, want 400", path, answer.StatusCode)
		}
	}
	if answer, _ := c.ask(http.MethodGet, maps+"?watch=true&timeoutSeconds=1&timeout=5", ""); answer.StatusCode != http.StatusOK {
		t.Errorf("a watch, which has no timeout = %d", answer.StatusCode)
	}
}

// Whoever asks for what is as new as it has seen shall not get what is older.
func TestAnObjectIsNotReadBeforeItsTime(t *testing.T) {
	t.Parallel()
	c := newCurl(t)
	c.ask(http.MethodPost, maps, `{"metadata":{"name":"m"}}`, "Content-Type", "application/json")
	for version, want := range map[string]int{"": 200, "0": 200, "1": 200, "1000000": http.StatusGatewayTimeout, "x": http.StatusBadRequest} {
		answer, body := c.ask(http.MethodGet, maps+"/m?resourceVersion="+version, "")
		if answer.StatusCode != want {
			t.Errorf("resourceVersion=%s = %d %v, want %d", version, answer.StatusCode, body["message"], want)
		}
	}
}
