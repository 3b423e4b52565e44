package authn

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

func TestImpersonation(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		header http.Header
		may    []string
		want   string
		err    error
	}{
		"nobody else": {want: "carol []"},
		"a user": {
			header: http.Header{"Impersonate-User": {"dave"}}, may: []string{"users//dave"}, want: "dave [system:authenticated]",
		},
		"a user without permission": {header: http.Header{"Impersonate-User": {"dave"}}, err: ErrForbidden},
		"a user with groups": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Group": {"dev", "ops"}},
			may:    []string{"users//dave", "groups//dev", "groups//ops"}, want: "dave [dev ops system:authenticated]",
		},
		"one group too many": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Group": {"dev", "system:masters"}},
			may:    []string{"users//dave", "groups//dev"}, err: ErrForbidden,
		},
		"a service account has its groups": {
			header: http.Header{"Impersonate-User": {"system:serviceaccount:prod:web"}}, may: []string{"serviceaccounts/prod/web"},
			want: "system:serviceaccount:prod:web [system:serviceaccounts system:serviceaccounts:prod system:authenticated]",
		},
		"nobody": {
			header: http.Header{"Impersonate-User": {"system:anonymous"}}, may: []string{"users//system:anonymous"},
			want: "system:anonymous [system:unauthenticated]",
		},
		"a uid needs its own permission": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Uid": {"7"}}, may: []string{"users//dave"}, err: ErrForbidden,
		},
		"an extra value needs its own permission": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Extra-Scopes": {"view"}}, may: []string{"users//dave"}, err: ErrForbidden,
		},
		"a group without a user": {header: http.Header{"Impersonate-Group": {"dev"}}, err: ErrMalformed},
		"an extra key that is not encoded": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Extra-%zz": {"x"}}, err: ErrMalformed,
		},
		"more groups than anybody has": {
			header: http.Header{"Impersonate-User": {"dave"}, "Impersonate-Group": slices.Repeat([]string{"g"}, maxImpersonated+1)}, err: ErrMalformed,
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			may := authorizer.AuthorizerFunc(func(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
				if a.GetVerb() == "impersonate" && slices.Contains(test.may, strings.Join([]string{a.GetResource(), a.GetNamespace(), a.GetName()}, "/")) {
					return authorizer.DecisionAllow, "", nil
				}
				return authorizer.DecisionNoOpinion, "", nil
			})
			header := test.header.Clone()
			got, err := Impersonate(t.Context(), may, &user.DefaultInfo{Name: "carol"}, header)
			if !errors.Is(err, test.err) {
				t.Fatalf("Impersonate = %v, want %v", err, test.err)
			}
			if err != nil {
				return
			}
			if text(got) != test.want {
				t.Errorf("Impersonate = %s, want %s", text(got), test.want)
			}
			if len(header) > 0 {
				t.Errorf("headers left: %v", header)
			}
		})
	}
}
