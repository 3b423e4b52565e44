package berthapi

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/trial"
)

func TestAPlanIsRefusedOfAPolicyWithANameThatNoneCanHave(t *testing.T) {
	t.Parallel()
	a := New(Config{Log: slog.New(slog.DiscardHandler)})
	for _, name := range []string{"", "a b", "a/b", strings.Repeat("x", 254)} {
		for path, ask := range map[string]http.HandlerFunc{"plan": a.plan, "rehearse": a.rehearse} {
			body := `{"items":[{}],"policies":[{"name":"` + name + `"}]}`
			w := httptest.NewRecorder()
			ask(w, httptest.NewRequest(http.MethodPost, "/berth/v1/"+path, strings.NewReader(body)))
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), "is no policy's name") {
				t.Errorf("%s with a policy %.10q = %d, %s", path, name, w.Code, w.Body)
			}
		}
	}
}

func TestPoliciesMayHaveTheNamesThatTheyHave(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"gpu-only", "PodFitsResources"} {
		if err := checkNames([]trial.Variation{{Name: name}}); err != nil {
			t.Error(err)
		}
	}
}
