package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
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
func (k *call) giveUpReading(after time.Duration) *patience {
	return newPatience(after, http.NewResponseController(k.w).SetReadDeadline)
}

// giveUpWriting does the same for writes. Over HTTP/2 a deadline that passes
// ends the stream even while nobody writes, so it must be stopped.
func (k *call) giveUpWriting(after time.Duration) *patience {
	return newPatience(after, http.NewResponseController(k.w).SetWriteDeadline)
}

// patience gives a client up once a time is over, but never after it was
// stopped: the request may have ended then, and its parts belong to others.
type patience struct {
	timer   *time.Timer
	mu      sync.Mutex
	stopped bool
}

func newPatience(after time.Duration, giveUp func(time.Time) error) *patience {
	p := new(patience)
	p.timer = time.AfterFunc(after, func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		if !p.stopped {
			_ = giveUp(time.Now())
		}
	})
	return p
}

// Stop ends it, and waits where the client is just being given up.
func (p *patience) Stop() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// Reset begins it again.
func (p *patience) Reset(after time.Duration) {
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	p.timer.Reset(after)
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
