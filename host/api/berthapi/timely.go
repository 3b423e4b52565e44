package berthapi

import (
	"net/http"
	"time"
)

// readerTime is how long the reader of a stream may take for one piece of it, of at
// most pieceBytes: a slow link is none that takes nothing.
const (
	readerTime = 30 * time.Second
	pieceBytes = 64 << 10
)

// timely writes pieces of a stream at once, and gives a reader up that does not
// take one in time.
type timely struct{ w http.ResponseWriter }

func (t timely) Write(p []byte) (written int, err error) {
	for err == nil && written < len(p) {
		var n int
		n, err = t.piece(p[written:min(len(p), written+pieceBytes)])
		written += n
	}
	return written, err
}

func (t timely) piece(p []byte) (int, error) {
	control := http.NewResponseController(t.w)
	if err := control.SetWriteDeadline(time.Now().Add(readerTime)); err != nil {
		return 0, err
	}
	n, err := t.w.Write(p)
	if err != nil {
		return n, err
	}
	if err := control.Flush(); err != nil {
		return n, err
	}
	// Over HTTP/2 a deadline ends the stream when it passes, written or not.
	return n, control.SetWriteDeadline(time.Time{})
}
