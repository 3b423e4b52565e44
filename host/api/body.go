package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// MaxBody is the largest body of a request, but for modules.
const MaxBody = 3 << 20

// bodyTime is how long a client may take to send it.
const bodyTime = 30 * time.Second

// body reads the request's body whole.
func (k *call) body() ([]byte, error) {
	if k.r.ContentLength > MaxBody {
		return nil, tooLarge()
	}
	if k.r.Body == nil || k.r.ContentLength == 0 {
		return nil, nil
	}
	defer k.giveUpReading(bodyTime).Stop()
	limited := http.MaxBytesReader(k.w, k.r.Body, MaxBody)
	if n := k.r.ContentLength; n > 0 {
		data := make([]byte, n)
		_, err := io.ReadFull(limited, data)
		return data, bodyError(err)
	}
	data, err := io.ReadAll(limited)
	return data, bodyError(err)
}

// giveUpReading makes reads fail after a time. A deadline that is set for each
// request would cost HTTP/2 two more switches of goroutines, so it is set only
// when the time is over.
func (k *call) giveUpReading(after time.Duration) *time.Timer {
	control := http.NewResponseController(k.w)
	return time.AfterFunc(after, func() { _ = control.SetReadDeadline(time.Now()) })
}

// giveUpWriting does the same for writes. Over HTTP/2 a deadline that passes
// ends the stream even while nobody writes, so it must be stopped.
func (k *call) giveUpWriting(after time.Duration) *time.Timer {
	control := http.NewResponseController(k.w)
	return time.AfterFunc(after, func() { _ = control.SetWriteDeadline(time.Now()) })
}

func bodyError(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return tooLarge()
	}
	return apierrors.NewBadRequest(fmt.Sprintf("reading the body: %v", err))
}

func tooLarge() error {
	return apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", MaxBody))
}
