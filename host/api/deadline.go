package api

import (
	"net/http"
	"sync"
	"time"
)

// readDeadline makes reads fail after a time. A deadline that is set for each
// request would cost HTTP/2 two more switches of goroutines, so it is set only
// when the time is over: on the writer as it is now, which what is laid around
// it later does not change.
func (k *call) readDeadline(after time.Duration) *ioDeadline {
	return newIODeadline(after, http.NewResponseController(k.w.Writer).SetReadDeadline)
}

// writeDeadline does the same for writes. Over HTTP/2 a deadline that passes
// ends the stream even while nobody writes, so it must be stopped.
func (k *call) writeDeadline(after time.Duration) *ioDeadline {
	return newIODeadline(after, http.NewResponseController(k.w.Writer).SetWriteDeadline)
}

// ioDeadline gives a client up once a time is over, but never after it was
// stopped: the request may have ended then, and its parts belong to others.
type ioDeadline struct {
	timer   *time.Timer
	mu      sync.Mutex
	stopped bool
}

func newIODeadline(after time.Duration, giveUp func(time.Time) error) *ioDeadline {
	p := new(ioDeadline)
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
func (p *ioDeadline) Stop() {
	p.timer.Stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.stopped = true
}

// Reset begins it again.
func (p *ioDeadline) Reset(after time.Duration) {
	p.mu.Lock()
	p.stopped = false
	p.mu.Unlock()
	p.timer.Reset(after)
}
