package api

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// statusOf is the answer that an error makes.
func statusOf(err error) *metav1.Status {
	var api apierrors.APIStatus
	if !errors.As(err, &api) {
		api = apierrors.NewInternalError(err)
	}
	status := api.Status()
	if status.Status == "" {
		status.Status = metav1.StatusFailure
	}
	if status.Code < 200 || status.Code > 599 {
		status.Code = http.StatusInternalServerError
	}
	return &status
}

// Forbidden words a refusal as Kubernetes does, since people and tools know it.
func Forbidden(a authorizer.AttributesRecord, reason string) error {
	who := ""
	if a.User != nil {
		who = a.User.GetName()
	}
	var text string
	switch what := a.Resource; {
	case !a.ResourceRequest:
		text = fmt.Sprintf("User %q cannot %s path %q", who, a.Verb, a.Path)
	default:
		if a.Subresource != "" {
			what += "/" + a.Subresource
		}
		text = fmt.Sprintf("User %q cannot %s resource %q in API group %q", who, a.Verb, what, a.APIGroup)
		if a.Namespace != "" {
			text += fmt.Sprintf(" in the namespace %q", a.Namespace)
		} else {
			text += " at the cluster scope"
		}
	}
	if reason != "" {
		text += ": " + reason
	}
	gr := schema.GroupResource{Group: a.APIGroup, Resource: a.Resource}
	if !a.ResourceRequest {
		err := apierrors.NewForbidden(gr, "", errors.New(text))
		err.ErrStatus.Message = "forbidden: " + text
		return err
	}
	return apierrors.NewForbidden(gr, a.Name, errors.New(text))
}

func pathNotFound() error {
	return apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "", 0, true)
}

func methodNotAllowed(r *http.Request) error {
	return apierrors.NewGenericServerResponse(http.StatusMethodNotAllowed, strings.ToUpper(r.Method), schema.GroupResource{}, "", "", 0, true)
}

func unescape(s string) (string, error) { return url.PathUnescape(s) }
