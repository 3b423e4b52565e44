package registry

import (
	"fmt"
	"net/http"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"
)

func TestErrorsOfTheStoreHaveAStatus(t *testing.T) {
	t.Parallel()
	r := &Request{Kind: &kind.Kind{Name: "Pod", Resource: "pods"}, Name: "web"}
	for _, tc := range []struct {
		err  error
		want int
	}{
		{store.ErrNotFound, http.StatusNotFound},
		{store.ErrExists, http.StatusConflict},
		{store.ErrConflict, http.StatusConflict},
		{store.ErrTooLarge, http.StatusRequestEntityTooLarge},
		{store.ErrCompacted, http.StatusGone},
		{store.ErrClosed, http.StatusServiceUnavailable},
		{store.ErrUnavailable, http.StatusServiceUnavailable},
		{store.ErrNoSpace, http.StatusServiceUnavailable},
		{fmt.Errorf("anything else"), http.StatusInternalServerError},
	} {
		err := r.status(fmt.Errorf("commit: %w", tc.err))
		status, ok := err.(apierrors.APIStatus) // what clients get is the error itself
		if !ok || int(status.Status().Code) != tc.want {
			t.Errorf("%v: %v, want code %d", tc.err, err, tc.want)
		}
	}
}
