package api

import (
	"io"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/klauspost/compress/gzip"
)

// gzipFrom is the length from which an answer is worth compressing; it is
// Kubernetes' own.
const gzipFrom = 128 << 10

var zippers = sync.Pool{New: func() any {
	z, _ := gzip.NewWriterLevel(io.Discard, gzip.BestSpeed) // the level is valid
	return z
}}

// wantsGzip tells whether the client asked for it.
func (k *call) wantsGzip() bool {
	for _, part := range strings.Split(k.r.Header.Get("Accept-Encoding"), ",") {
		name, params, _ := strings.Cut(strings.TrimSpace(part), ";")
		if name == "gzip" && strings.ReplaceAll(params, " ", "") != "q=0" {
			return true
		}
	}
	return false
}

// write sends a whole answer. The headers but for its length are set.
func (k *call) write(code int, data []byte) error {
	if len(data) >= gzipFrom && k.wantsGzip() {
		k.done()
		defer k.writeDeadline(answerTime).Stop()
		out, finish := k.stream(code)
		if _, err := out.Write(data); err != nil {
			return err
		}
		return finish()
	}
	if len(data) > shortAnswer {
		k.done() // the work is; how long the client takes is its own affair
		defer k.writeDeadline(answerTime).Stop()
	}
	k.w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	k.w.WriteHeader(code)
	_, err := k.w.Write(data)
	return err
}

// shortAnswer fits into what servers buffer, so that no client can hold it up.
const shortAnswer = 4 << 10

// slowAfter is how long a client may take to accept a long answer before it no
// longer counts as work in progress: it would keep others out.
var slowAfter = 5 * time.Second

// done gives the request's seat back.
func (k *call) done() {
	k.leave()
	k.leave = func() {}
}

// doneSoon gives it back once the client turns out to be slow. stop must be
// called before the answer ends.
func (k *call) doneSoon() (stop func() bool) {
	k.leave = sync.OnceFunc(k.leave)
	return time.AfterFunc(slowAfter, k.leave).Stop
}

// stream sends an answer piece by piece, compressed if the client asked. The
// headers go with the first piece, so an error before it can be answered.
func (k *call) stream(code int) (out io.Writer, finish func() error) {
	head := &headed{call: k, code: code}
	if !k.wantsGzip() {
		return head, func() error { return nil }
	}
	head.gzip = true
	z := zippers.Get().(*gzip.Writer)
	z.Reset(head)
	return z, func() error {
		err := z.Close()
		zippers.Put(z)
		return err
	}
}

// headed writes the status line before the first piece, and says how what
// follows is compressed: an error that comes before is answered as it is.
type headed struct {
	call *call
	code int
	gzip bool
}

func (h *headed) Write(p []byte) (int, error) {
	if !h.call.w.Committed {
		if h.gzip {
			h.call.w.Header().Add("Vary", "Accept-Encoding")
			h.call.w.Header().Set("Content-Encoding", "gzip")
		}
		h.call.w.WriteHeader(h.code)
	}
	return h.call.w.Write(p)
}
