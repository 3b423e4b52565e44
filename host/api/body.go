package api

import (
	"errors"
	"fmt"
	"io"
	"net/http"
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
	defer k.readDeadline(bodyTime).Stop()
	limited := http.MaxBytesReader(k.w, k.r.Body, MaxBody)
	if n := k.r.ContentLength; n > 0 {
		data := make([]byte, n)
		_, err := io.ReadFull(limited, data)
		return data, k.bodyError(err)
	}
	data, err := io.ReadAll(limited)
	return data, k.bodyError(err)
}

// boundBody has whoever reads the body next read it within that time, too: it
// gets an error then. stop must be called before the request ends.
func (k *call) boundBody() (stop func()) {
	if k.r.Body == nil || k.r.Body == http.NoBody {
		return func() {}
	}
	p := k.readDeadline(bodyTime)
	k.r.Body = &deadlineBody{ReadCloser: k.r.Body, deadline: p}
	return p.Stop
}

// boundUpload is boundBody for a module: a slow link is not given up as long as
// it brings piece after piece.
func (k *call) boundUpload() (stop func()) {
	stop = k.boundBody()
	if a, ok := k.r.Body.(*deadlineBody); ok {
		a.until = time.Now().Add(uploadTime)
	}
	return stop
}

// deadlineBody is a body whose client has only so much time, for each piece of it if
// there is an until.
type deadlineBody struct {
	io.ReadCloser
	deadline *ioDeadline
	until    time.Time
	got      int // of the piece
}

func (a *deadlineBody) Read(p []byte) (int, error) {
	n, err := a.ReadCloser.Read(p)
	a.got += n
	switch {
	case err != nil:
		a.deadline.Stop() // what follows is not the client's time
	case a.got >= pieceBytes && time.Now().Before(a.until):
		a.got = 0
		a.deadline.Reset(bodyTime)
	}
	return n, err
}

// boundAnswer has a client accept each piece of what a handler writes within
// answerTime. stop must be called before the request ends.
func (k *call) boundAnswer() (stop func()) {
	p := k.writeDeadline(answerTime)
	p.Stop()
	k.w.Writer = &deadlineWriter{k.w.Writer, p}
	return p.Stop
}

// deadlineWriter is an answer whose client has only so much time.
type deadlineWriter struct {
	http.ResponseWriter
	deadline *ioDeadline
}

func (a *deadlineWriter) Write(p []byte) (int, error) {
	a.deadline.Reset(answerTime)
	defer a.deadline.Stop()
	return a.ResponseWriter.Write(p)
}

// Unwrap serves http.ResponseController.
func (a *deadlineWriter) Unwrap() http.ResponseWriter { return a.ResponseWriter }

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
