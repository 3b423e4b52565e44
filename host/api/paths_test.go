package api_test

import (
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/apitest"
)

func TestPathsAnswerAsKubernetesDoes(t *testing.T) {
	t.Parallel()
	s := apitest.Start(t)
	client := httpClient(t, s)
	for _, tt := range []struct {
		method, path string
		code         int
		says         string
	}{
		{"GET", "/api/", 200, `"APIVersions"`},
		{"GET", "/apis/", 200, `"APIGroupList"`},
		{"GET", "/apis/apps/", 200, `"APIGroup"`},
		{"GET", "/apis/apps/v1/", 200, `"APIResourceList"`},
		{"GET", "/api/v1/", 200, `"APIResourceList"`},
		{"GET", "/version/", 200, `"gitVersion"`},
		{"GET", "/openapi/v3/", 200, `"paths"`},
		{"POST", "/apis/stable.example.com/v1/crontabs", 404, "could not find the requested resource"},
		{"POST", "/api/v2/pods", 404, "could not find the requested resource"},
		{"POST", "/apis/apps/v2/deployments", 404, "could not find the requested resource"},
		{"POST", "/api/v1/namespaces/default/pods/p", 405, ""},
		{"GET", "/api/v1/pods?continue=x&resourceVersion=7", 400, "specifying resource version is not allowed when using continue"},
	} {
		if code, text := send(t, client, tt.method, s.URL+tt.path, "application/json", "", "{}"); code != tt.code || !strings.Contains(text, tt.says) {
			t.Errorf("%s %s = %d %s, want %d and %q", tt.method, tt.path, code, clip(text), tt.code, tt.says)
		}
	}
}
