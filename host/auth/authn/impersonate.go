package authn

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	authenticationv1 "k8s.io/api/authentication/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// ErrForbidden is an impersonation that the sender may not do.
var ErrForbidden = errors.New("forbidden")

// ErrMalformed is an impersonation that makes no sense.
var ErrMalformed = errors.New("malformed impersonation")

// maxImpersonated bounds the groups and extra values of one request: each is a
// question to the authorizer.
const maxImpersonated = 64

// Impersonate returns who the sender wants to be, if it may be, and takes the
// headers that asked for it out of the request. Without such headers it is the
// sender.
//
// # Errors
// ErrForbidden or ErrMalformed, wrapped.
func Impersonate(ctx context.Context, may authorizer.Authorizer, sender user.Info, header http.Header) (user.Info, error) {
	wanted, err := wantedUser(header)
	if err != nil || wanted == nil {
		return sender, err
	}
	for _, ask := range questions(wanted) {
		ask.User, ask.Verb, ask.ResourceRequest = sender, "impersonate", true
		decision, reason, err := may.Authorize(ctx, ask)
		if err != nil || decision != authorizer.DecisionAllow {
			return nil, fmt.Errorf("%w: user %q may not impersonate %s %q: %s", ErrForbidden, sender.GetName(), ask.Resource, ask.Name, reason)
		}
	}
	for name := range header {
		if strings.HasPrefix(name, "Impersonate-") {
			header.Del(name)
		}
	}
	return complete(wanted), nil
}

func wantedUser(header http.Header) (*user.DefaultInfo, error) {
	wanted := &user.DefaultInfo{
		Name:   header.Get(authenticationv1.ImpersonateUserHeader),
		UID:    header.Get(authenticationv1.ImpersonateUIDHeader),
		Groups: slices.Clone(header.Values(authenticationv1.ImpersonateGroupHeader)),
	}
	count := len(wanted.Groups)
	for name, values := range header {
		key, ok := strings.CutPrefix(name, authenticationv1.ImpersonateUserExtraHeaderPrefix)
		if !ok {
			continue
		}
		key, err := url.PathUnescape(strings.ToLower(key))
		if err != nil {
			return nil, fmt.Errorf("%w: header %s", ErrMalformed, name)
		}
		if wanted.Extra == nil {
			wanted.Extra = map[string][]string{}
		}
		wanted.Extra[key] = append(wanted.Extra[key], values...)
		count += len(values)
	}
	if count > maxImpersonated {
		return nil, fmt.Errorf("%w: more than %d groups and extra values", ErrMalformed, maxImpersonated)
	}
	if wanted.Name != "" {
		return wanted, nil
	}
	if count > 0 || wanted.UID != "" {
		return nil, fmt.Errorf("%w: a group, uid or extra value without the header %s", ErrMalformed, authenticationv1.ImpersonateUserHeader)
	}
	return nil, nil
}

// questions are what the sender must be allowed, one for each part.
func questions(wanted *user.DefaultInfo) []authorizer.AttributesRecord {
	var asks []authorizer.AttributesRecord
	if namespace, name, err := serviceaccount.SplitUsername(wanted.Name); err == nil {
		asks = append(asks, authorizer.AttributesRecord{Resource: "serviceaccounts", APIVersion: "v1", Namespace: namespace, Name: name})
	} else {
		asks = append(asks, authorizer.AttributesRecord{Resource: "users", APIVersion: "v1", Name: wanted.Name})
	}
	for _, group := range wanted.Groups {
		asks = append(asks, authorizer.AttributesRecord{Resource: "groups", APIVersion: "v1", Name: group})
	}
	if wanted.UID != "" {
		asks = append(asks, authorizer.AttributesRecord{APIGroup: authenticationv1.GroupName, APIVersion: "v1", Resource: "uids", Name: wanted.UID})
	}
	for key, values := range wanted.Extra {
		for _, value := range values {
			asks = append(asks, authorizer.AttributesRecord{
				APIGroup: authenticationv1.GroupName, APIVersion: "v1", Resource: "userextras", Subresource: key, Name: value,
			})
		}
	}
	return asks
}

// complete adds the groups that the identity would have if it had come itself.
func complete(wanted *user.DefaultInfo) user.Info {
	if namespace, _, err := serviceaccount.SplitUsername(wanted.Name); err == nil && len(wanted.Groups) == 0 {
		wanted.Groups = serviceaccount.MakeGroupNames(namespace)
	}
	group := user.AllAuthenticated
	if wanted.Name == user.Anonymous {
		group = user.AllUnauthenticated
	}
	if !slices.Contains(wanted.Groups, user.AllAuthenticated) && !slices.Contains(wanted.Groups, group) {
		wanted.Groups = append(wanted.Groups, group)
	}
	return wanted
}
