package api

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/auth/authn"

	"github.com/labstack/echo/v4"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
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

// The audit log is there to tell who did something, whoever they were taken for.
func TestWhoAsksIsAuditedBesideWhomTheyImpersonate(t *testing.T) {
	t.Parallel()
	var last *Audited
	s := &server{echo: echo.New()}
	s.Log, s.Audit = slog.New(slog.DiscardHandler), func(a *Audited) { last = a }
	s.Authenticator = authenticator.RequestFunc(func(*http.Request) (*authenticator.Response, bool, error) {
		return &authenticator.Response{User: &user.DefaultInfo{Name: "erin"}}, true, nil
	})
	may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
		if a.GetName() == "root" {
			return authorizer.DecisionNoOpinion, "", nil
		}
		return authorizer.DecisionAllow, "", nil
	})
	s.Impersonate = func(r *http.Request, sender user.Info) (user.Info, error) {
		who, err := authn.Impersonate(r.Context(), may, sender, r.Header)
		if err != nil {
			return nil, apierrors.NewForbidden(schema.GroupResource{}, "", err)
		}
		return who, nil
	}
	s.echo.GET("/", s.serve(target{verb: "get"}, func(k *call) error { return k.write(http.StatusOK, []byte(k.user.GetName())) }))
	name := func(who user.Info) string {
		if who == nil {
			return ""
		}
		return who.GetName()
	}
	for _, test := range []struct{ as, wantUser, wantImpersonated string }{
		{"", "erin", ""}, {"frank", "erin", "frank"}, {"root", "erin", ""},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if test.as != "" {
			r.Header.Set("Impersonate-User", test.as)
		}
		s.echo.ServeHTTP(httptest.NewRecorder(), r)
		if name(last.User) != test.wantUser || name(last.Impersonated) != test.wantImpersonated || (last.Code == http.StatusOK) != (test.as != "root") {
			t.Errorf("as %q: user %q, impersonated %q, %d", test.as, name(last.User), name(last.Impersonated), last.Code)
		}
	}
}

// A request is found again in the audit log by what its client calls it.
func TestARequestIsAuditedUnderItsID(t *testing.T) {
	t.Parallel()
	var last *Audited
	s := &server{echo: echo.New()}
	s.Audit = func(a *Audited) { last = a }
	s.echo.GET("/", s.serve(target{verb: "get"}, func(k *call) error { return k.write(http.StatusOK, nil) }))
	made := map[string]bool{}
	for _, id := range []string{"mine", "", ""} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
		if id != "" {
			r.Header.Set("Audit-ID", id)
		}
		rec := httptest.NewRecorder()
		s.echo.ServeHTTP(rec, r)
		got := rec.Header().Get("Audit-ID")
		if got == "" || got != last.ID || (id != "" && got != id) || made[got] {
			t.Errorf("a request that is called %q is answered as %q and audited as %q", id, got, last.ID)
		}
		made[got] = true
	}
}
