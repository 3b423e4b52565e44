package registry

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/berth-dev/berth/host/store"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// modified is what clients match on to try again.
const modified = "the object has been modified; please apply your changes to the latest version and try again"

// status turns an error of the store into one that clients know. Errors that
// are API errors already stay as they are.
func (r *Request) status(err error) error {
	if err == nil || errors.As(err, new(apierrors.APIStatus)) {
		return err
	}
	gr, name := r.Kind.GroupResource(), r.Name
	switch {
	case errors.Is(err, store.ErrNotFound):
		return apierrors.NewNotFound(gr, name)
	case errors.Is(err, store.ErrExists):
		return apierrors.NewAlreadyExists(gr, name)
	case errors.Is(err, store.ErrConflict):
		return apierrors.NewConflict(gr, name, errors.New(modified))
	case errors.Is(err, store.ErrTooLarge):
		return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("%s is larger than what one transaction of the store holds", r.Kind.Name))
	case errors.Is(err, store.ErrCompacted):
		return apierrors.NewResourceExpired("The resourceVersion for the provided request is too old.")
	case errors.Is(err, store.ErrFuture):
		return tooLargeVersion(0, 0)
	case errors.Is(err, store.ErrClosed):
		return apierrors.NewServiceUnavailable("the host is shutting down")
	case errors.Is(err, store.ErrUnavailable), errors.Is(err, store.ErrNoSpace):
		return apierrors.NewServiceUnavailable(err.Error())
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return apierrors.NewTimeoutError("the request was given up before it was done", 0)
	}
	return apierrors.NewInternalError(err)
}

// tooLargeVersion is Kubernetes' answer to a revision that has not come yet.
// Clients look for its cause.
func tooLargeVersion(asked, have int64) error {
	err := apierrors.NewTimeoutError(fmt.Sprintf("Too large resource version: %d, current: %d", asked, have), 1)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{
		Type: metav1.CauseTypeResourceVersionTooLarge, Message: "Too large resource version",
	}}
	return err
}

// refused makes a refusal out of what admission returned.
func (r *Request) refused(err error) error {
	if err == nil || errors.As(err, new(apierrors.APIStatus)) {
		return err
	}
	return apierrors.NewForbidden(r.Kind.GroupResource(), r.Name, err)
}

func methodNotSupported(r *Request, verb string) error {
	return apierrors.NewMethodNotSupported(r.Kind.GroupResource(), verb)
}

// withCause adds a cause to a status error.
func withCause(err *apierrors.StatusError, cause metav1.CauseType, message string) *apierrors.StatusError {
	if err.ErrStatus.Details == nil {
		err.ErrStatus.Details = &metav1.StatusDetails{}
	}
	err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Type: cause, Message: message})
	return err
}

// UnsupportedPatch tells which media types of patches are taken.
func UnsupportedPatch(accepted []string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusUnsupportedMediaType, Reason: metav1.StatusReasonUnsupportedMediaType,
		Message: "the body of the request was in an unknown format - accepted media types include: " + strings.Join(accepted, ", "),
	}}
}

var (
	noResource schema.GroupResource
	noKind     schema.GroupVersionKind
)
