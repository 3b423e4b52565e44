package api

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"

	"github.com/labstack/echo/v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Rules may allow to list what has one name. Only a selector that picks just that
// is under them.
func TestAListIsOfOneNameOnlyWhereItsSelectorSaysSo(t *testing.T) {
	t.Parallel()
	s := &server{echo: echo.New()}
	s.Authorizer = authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetName() == "mine" {
			return authorizer.DecisionAllow, "", nil
		}
		return authorizer.DecisionNoOpinion, "", nil
	})
	secrets := kind.MustStored("secrets")
	s.echo.GET("/", s.serve(target{kind: secrets, version: corev1.SchemeGroupVersion, verb: "list"}, func(k *call) error {
		return k.write(http.StatusOK, nil)
	}))
	for selector, want := range map[string]int{
		"metadata.name=mine":             http.StatusOK,
		"metadata.name==mine":            http.StatusOK,
		"type=Opaque,metadata.name=mine": http.StatusOK,
		"":                               http.StatusForbidden,
		"metadata.name=other":            http.StatusForbidden,
		"metadata.name!=mine":            http.StatusForbidden,
		`metadata.namespace!=none\,metadata.name=mine`:   http.StatusForbidden,
		`metadata.namespace!=none\,metadata.name=mine,,`: http.StatusForbidden,
		"metadata.name=mine,(":                           http.StatusForbidden,
	} {
		rec := httptest.NewRecorder()
		s.echo.ServeHTTP(rec, httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/?fieldSelector="+url.QueryEscape(selector), nil))
		if rec.Code != want {
			t.Errorf("a list by %q = %d, want %d", selector, rec.Code, want)
		}
	}
}
