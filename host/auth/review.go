package auth

import (
	"context"
	"errors"
	"fmt"
	"slices"

	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/berth-dev/berth/host/auth/authn"
)

// IssueToken answers serviceaccounts/NAME/token.
func (a *Auth) IssueToken(ctx context.Context, account *corev1.ServiceAccount, req *authenticationv1.TokenRequest) (*authenticationv1.TokenRequest, error) {
	return a.Accounts.IssueToken(ctx, account, req)
}

// Review fills the status of a review, in a copy.
//
// # Errors
// Errors of the API: 400 for a review that asks nothing, or two things at once.
func (a *Auth) Review(ctx context.Context, by user.Info, namespace string, obj runtime.Object) (runtime.Object, error) {
	switch obj := obj.DeepCopyObject().(type) {
	case *authenticationv1.TokenReview:
		return obj, a.reviewToken(ctx, obj)
	case *authenticationv1.SelfSubjectReview:
		obj.Status.UserInfo = userInfo(by)
		return obj, nil
	case *authorizationv1.SubjectAccessReview:
		who, err := subjectOf(&obj.Spec)
		if err != nil {
			return nil, err
		}
		obj.Status, err = a.reviewAccess(ctx, who, obj.Spec.ResourceAttributes, obj.Spec.NonResourceAttributes)
		return obj, err
	case *authorizationv1.LocalSubjectAccessReview:
		who, err := localSubject(&obj.Spec, namespace)
		if err != nil {
			return nil, err
		}
		obj.Status, err = a.reviewAccess(ctx, who, obj.Spec.ResourceAttributes, nil)
		return obj, err
	case *authorizationv1.SelfSubjectAccessReview:
		status, err := a.reviewAccess(ctx, by, obj.Spec.ResourceAttributes, obj.Spec.NonResourceAttributes)
		obj.Status = status
		return obj, err
	case *authorizationv1.SelfSubjectRulesReview:
		return obj, a.reviewRules(ctx, by, obj)
	}
	return nil, apierrors.NewBadRequest(fmt.Sprintf("a %T cannot be reviewed", obj))
}

func (a *Auth) reviewToken(ctx context.Context, review *authenticationv1.TokenReview) error {
	if review.Spec.Token == "" {
		return apierrors.NewBadRequest("token is required for TokenReview in authentication")
	}
	// Never those of whoever asks, which the request's context may hold.
	audiences := review.Spec.Audiences
	if len(audiences) == 0 {
		audiences = a.Accounts.Audiences()
	}
	ctx = authenticator.WithAudiences(ctx, audiences)
	response, ok, err := a.Requests.AuthenticateToken(ctx, review.Spec.Token)
	review.Status = authenticationv1.TokenReviewStatus{Authenticated: ok}
	if err != nil && !errors.Is(err, authn.ErrUnknown) {
		review.Status.Error = "[invalid bearer token, " + err.Error() + "]"
	}
	if ok {
		review.Status.User = userInfo(response.User)
		review.Status.Audiences = response.Audiences
	}
	return nil
}

func userInfo(who user.Info) authenticationv1.UserInfo {
	info := authenticationv1.UserInfo{Username: who.GetName(), UID: who.GetUID(), Groups: who.GetGroups()}
	for key, values := range who.GetExtra() {
		if info.Extra == nil {
			info.Extra = map[string]authenticationv1.ExtraValue{}
		}
		info.Extra[key] = values
	}
	return info
}

func subjectOf(spec *authorizationv1.SubjectAccessReviewSpec) (user.Info, error) {
	if spec.User == "" && len(spec.Groups) == 0 {
		return nil, apierrors.NewBadRequest("spec.user: at least one of user or group must be specified")
	}
	who := &user.DefaultInfo{Name: spec.User, UID: spec.UID, Groups: spec.Groups}
	for key, values := range spec.Extra {
		if who.Extra == nil {
			who.Extra = map[string][]string{}
		}
		who.Extra[key] = values
	}
	return who, nil
}

func localSubject(spec *authorizationv1.SubjectAccessReviewSpec, namespace string) (user.Info, error) {
	if spec.NonResourceAttributes != nil {
		return nil, apierrors.NewBadRequest("spec.nonResourceAttributes: disallowed on this kind of request")
	}
	if spec.ResourceAttributes == nil || spec.ResourceAttributes.Namespace != namespace {
		return nil, apierrors.NewBadRequest("spec.resourceAttributes.namespace: must match metadata.namespace")
	}
	return subjectOf(spec)
}

func (a *Auth) reviewAccess(ctx context.Context, who user.Info, resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes) (authorizationv1.SubjectAccessReviewStatus, error) {
	if (resource == nil) == (path == nil) {
		return authorizationv1.SubjectAccessReviewStatus{}, apierrors.NewBadRequest("spec: exactly one of nonResourceAttributes or resourceAttributes must be specified")
	}
	ask := authorizer.AttributesRecord{User: who}
	if path != nil {
		ask.Verb, ask.Path = path.Verb, path.Path
	} else {
		askResource(&ask, resource)
	}
	decision, reason, err := a.Access.Authorize(ctx, ask)
	status := authorizationv1.SubjectAccessReviewStatus{
		Allowed: decision == authorizer.DecisionAllow, Denied: decision == authorizer.DecisionDeny, Reason: reason,
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	return status, nil
}

func askResource(ask *authorizer.AttributesRecord, r *authorizationv1.ResourceAttributes) {
	ask.ResourceRequest = true
	ask.Verb, ask.Namespace, ask.Name = r.Verb, r.Namespace, r.Name
	ask.APIGroup, ask.APIVersion, ask.Resource, ask.Subresource = r.Group, r.Version, r.Resource, r.Subresource
	if ask.APIVersion == "" {
		ask.APIVersion = "*"
	}
	if r.FieldSelector != nil {
		ask.FieldSelectorRequirements, ask.FieldSelectorParsingErr = fieldsOf(r.FieldSelector)
	}
	if r.LabelSelector != nil {
		ask.LabelSelectorRequirements, ask.LabelSelectorParsingErr = labelsOf(r.LabelSelector)
	}
}

func fieldsOf(s *authorizationv1.FieldSelectorAttributes) (fields.Requirements, error) {
	if s.RawSelector != "" {
		selector, err := fields.ParseSelector(s.RawSelector)
		if err != nil {
			return nil, err
		}
		return selector.Requirements(), nil
	}
	var all fields.Requirements
	for _, r := range s.Requirements {
		if len(r.Values) != 1 {
			continue // narrower than we can say: leaving it out asks for more
		}
		op := selection.Equals
		switch r.Operator {
		case metav1.FieldSelectorOpIn:
		case metav1.FieldSelectorOpNotIn:
			op = selection.NotEquals
		default:
			continue
		}
		all = append(all, fields.Requirement{Field: r.Key, Operator: op, Value: r.Values[0]})
	}
	return all, nil
}

func labelsOf(s *authorizationv1.LabelSelectorAttributes) (labels.Requirements, error) {
	var selector labels.Selector
	if s.RawSelector != "" {
		var err error
		if selector, err = labels.Parse(s.RawSelector); err != nil {
			return nil, err
		}
	} else {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: s.Requirements}); err != nil {
			return nil, err
		}
	}
	requirements, _ := selector.Requirements()
	return requirements, nil
}

func (a *Auth) reviewRules(ctx context.Context, by user.Info, review *authorizationv1.SelfSubjectRulesReview) error {
	if review.Spec.Namespace == "" {
		return apierrors.NewBadRequest("no namespace on request")
	}
	resources, paths, incomplete, err := a.Access.RulesFor(ctx, by, review.Spec.Namespace)
	status := authorizationv1.SubjectRulesReviewStatus{
		ResourceRules: []authorizationv1.ResourceRule{}, NonResourceRules: []authorizationv1.NonResourceRule{}, Incomplete: incomplete,
	}
	for _, r := range resources {
		status.ResourceRules = append(status.ResourceRules, authorizationv1.ResourceRule{
			Verbs: r.GetVerbs(), APIGroups: r.GetAPIGroups(), Resources: r.GetResources(), ResourceNames: slices.Clone(r.GetResourceNames()),
		})
	}
	for _, p := range paths {
		status.NonResourceRules = append(status.NonResourceRules, authorizationv1.NonResourceRule{Verbs: p.GetVerbs(), NonResourceURLs: p.GetNonResourceURLs()})
	}
	if err != nil {
		status.EvaluationError = err.Error()
	}
	review.Status = status
	return nil
}
