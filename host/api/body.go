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

// MaxBody is the largest body of a request, but for uploads.
const MaxBody = 3 << 20

// bodyTime is how long a client may take to send it, or each piece of a module,
// whose whole may take uploadTime.
var bodyTime = 30 * time.Second

const (
	pieceBytes = 64 << 10
	uploadTime = 15 * time.Minute
)

// body reads the request's body whole.
func (k *call) body() ([]byte, error) {
	if k.r.ContentLength > MaxBody {
		return nil, k.tooLarge()
	}
	if k.r.Body == nil || k.r.ContentLength == 0 {
		return nil, nil
	}
	defer k.giveUpReading(bodyTime).Stop()
	limited := http.MaxBytesReader(k.w, k.r.Body, MaxBody)
	if n := k.r.ContentLength; n > 0 {
		data := make([]byte, n)
		_, err := io.ReadFull(limited, data)
		return data, k.bodyError(err)
	}
	data, err := io.ReadAll(limited)
	return data, k.bodyError(err)
}

// awaitBody has whoever reads the body next read it within that time, too: it
// gets an error then. stop must be called before the request ends.
func (k *call) awaitBody() (stop func()) {
	if k.r.Body == nil || k.r.Body == http.NoBody {
		return func() {}
	}
	p := k.giveUpReading(bodyTime)
	k.r.Body = &awaited{ReadCloser: k.r.Body, patience: p}
	return p.Stop
}

// awaitUpload is awaitBody for a module: a slow link is not given up as long as
// it brings piece after piece.
func (k *call) awaitUpload() (stop func()) {
	stop = k.awaitBody()
	if a, ok := k.r.Body.(*awaited); ok {
		a.until = time.Now().Add(uploadTime)
	}
	return stop
}

// awaited is a body whose client has only so much time, for each piece of it if
// there is an until.
type awaited struct {
	io.ReadCloser
	patience *patience
	until    time.Time
	got      int // of the piece
}

func (a *awaited) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.got += n
	switch {
	case err != nil:
		a.patience.Stop() // what follows is not the client's time
	case a.got >= pieceBytes && time.Now().Before(a.until):
		a.got = 0
		a.patience.Reset(bodyTime)
	}
	return n, err
}

// awaitReader has a client accept each piece of what a handler writes within
// answerTime. stop must be called before the request ends.
func (k *call) awaitReader() (stop func()) {
	p := k.giveUpWriting(answerTime)
	p.Stop()
	k.w.Writer = &accepted{k.w.Writer, p}
	return p.Stop
}

// accepted is an answer whose client has only so much time.
type accepted struct {
	http.ResponseWriter
	patience *patience
}

func (a *accepted) Write(p []byte) (int, error) {
	a.patience.Reset(answerTime)
	defer a.patience.Stop()
	return a.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (a *accepted) Unwrap() http.ResponseWriter { return a.ResponseWriter }

// giveUpReading makes reads fail after a time. A deadline that is set for each
// request would cost HTTP/2 two more switches of goroutines, so it is set only
// when the time is over: on the writer as it is now, which what is laid around
// it later does not change.
func (k *call) giveUpReading(after time.Duration) *patience {
	return newPatience(after, http.NewResponseController(k.w.Writer).SetReadDeadline)
}

// giveUpWriting does the same for writes. Over HTTP/2 a deadline that passes
// ends the stream even while nobody writes, so it must be stopped.
func (k *call) giveUpWriting(after time.Duration) *patience {
	return newPatience(after, http.NewResponseController(k.w.Writer).SetWriteDeadline)
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

func (k *call) bodyError(err error) error {
	if err == nil {
		return nil
	}
	if errors.As(err, new(*http.MaxBytesError)) {
		return k.tooLarge()
	}
	return apierrors.NewBadRequest(fmt.Sprintf("reading the body: %v", err))
}

// tooLarge says also how a larger one gets here, where there is a way.
func (k *call) tooLarge() error {
	limit := fmt.Sprintf("limit is %d", MaxBody)
	if k.place.kind != nil {
		if u, ok := k.server.Uploads[k.place.kind.StoreName()]; ok {
			limit += ": " + u.TooLarge
		}
	}
	return apierrors.NewRequestEntityTooLargeError(limit)
}
