package registry

import (
	"context"

	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/authentication/user"
)

// TokenIssuer answers POST serviceaccounts/NAME/token.
type TokenIssuer interface {
	// IssueToken fills the status of req, which it may change, for account.
	IssueToken(ctx context.Context, account *corev1.ServiceAccount, req *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error)
}

// Reviewer answers kinds that are asked and never stored: TokenReview,
// SelfSubjectReview, SubjectAccessReview, LocalSubjectAccessReview,
// SelfSubjectAccessReview and SelfSubjectRulesReview.
type Reviewer interface {
	// Review fills the status of obj, a pointer to one of these types of
	// k8s.io/api (v1), which it may change and return. Namespace is set for
	// LocalSubjectAccessReview.
	Review(ctx context.Context, by user.Info, namespace string, obj runtime.Object) (runtime.Object, error)
}
