package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// What is shown of an upload, and when. A quick one shows nothing.
const (
	progressAfter = 300 * time.Millisecond
	progressEvery = 200 * time.Millisecond
	progressOfLog = 5 * time.Second
)

// progress shows how much of an upload is on its way: on a terminal in one line
// that changes and goes, elsewhere in a single one, if it takes long.
type progress struct {
	to       io.Writer
	terminal bool
	total    int
	what     string       // is done, where nothing is uploaded
	given    atomic.Int64 // to the connection, which holds some of it back
	conn     atomic.Pointer[syscall.RawConn]
	end      chan struct{}
	ended    chan struct{}
}

// showProgress begins to show an upload of so many bytes, until stop.
func showProgress(to io.Writer, total int) *progress {
	return startProgress(to, isTerminal(to), total)
}

// during shows that something is done, and since when, until it is done. What
// takes less than a second shows nothing.
func during(to io.Writer, what string) (done func()) {
	p := &progress{to: to, terminal: isTerminal(to), what: what, end: make(chan struct{}), ended: make(chan struct{})}
	go p.show()
	return p.stop
}

func startProgress(to io.Writer, terminal bool, total int) *progress {
	p := &progress{to: to, terminal: terminal, total: total, end: make(chan struct{}), ended: make(chan struct{})}
	go p.show()
	return p
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (p *progress) stop() {
	close(p.end)
	<-p.ended
}

func (p *progress) show() {
	defer close(p.ended)
	wait := progressAfter
	if p.what != "" {
		wait = time.Second
	}
	if !p.terminal {
		wait = progressOfLog
	}
	began, shown, sent := time.Now(), "", 0
	for {
		select {
		case <-p.end:
			if shown != "" && p.terminal {
				fmt.Fprint(p.to, "\r\x1b[K")
			}
			return
		case <-time.After(wait):
		}
		sent = max(sent, p.sent())
		line := p.line(sent, time.Since(began))
		switch {
		case !p.terminal && shown == "":
			fmt.Fprintln(p.to, line)
		case p.terminal && line != shown:
			fmt.Fprint(p.to, "\r\x1b[K"+line)
		}
		shown, wait = line, progressEvery
	}
}

// line is what there is to say of it, so long after it began.
func (p *progress) line(sent int, took time.Duration) string {
	if p.what != "" {
		return fmt.Sprintf("%s: %s", p.what, took.Round(time.Second))
	}
	total := p.total
	if sent >= total {
		return fmt.Sprintf("uploaded %d KB, the host vets and compiles it", kilobytes(total))
	}
	line := fmt.Sprintf("uploading: %d of %d KB, %d %%", sent/1024, kilobytes(total), 100*sent/total)
	if sent > 0 && took >= time.Second {
		line += fmt.Sprintf(", %s left", time.Duration(float64(took)*float64(total-sent)/float64(sent)).Round(time.Second))
	}
	return line
}

// sent is how much the other side has, as far as this machine knows.
func (p *progress) sent() int {
	held := 0
	if c := p.conn.Load(); c != nil {
		_ = (*c).Control(func(fd uintptr) {
			if n, err := unix.IoctlGetInt(int(fd), unix.SIOCOUTQ); err == nil {
				held = n
			}
		})
	}
	return max(int(p.given.Load())-held, 0)
}

// over remembers the connection that an upload goes by.
func (p *progress) over(info httptrace.GotConnInfo) {
	c := info.Conn
	if wrapped, ok := c.(interface{ NetConn() net.Conn }); ok { // by TLS
		c = wrapped.NetConn()
	}
	if c, ok := c.(syscall.Conn); ok {
		if raw, err := c.SyscallConn(); err == nil {
			p.conn.Store(&raw)
		}
	}
}

type progressKey struct{}

// counted is a context whose requests count on p what they send.
func (p *progress) counted(ctx context.Context) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// counting lets uploads count.
func counting(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(req *http.Request) (*http.Response, error) {
		p, ok := req.Context().Value(progressKey{}).(*progress)
		if !ok || req.Body == nil {
			return next.RoundTrip(req)
		}
		p.given.Store(0) // it may be sent once more
		req = req.Clone(httptrace.WithClientTrace(req.Context(), &httptrace.ClientTrace{GotConn: p.over}))
		req.Body = &countedBody{req.Body, p}
		return next.RoundTrip(req)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (r roundTripper) RoundTrip(req *http.Request) (*http.Response, error) { return r(req) }

type countedBody struct {
	io.ReadCloser
	p *progress
}

func (c *countedBody) Read(b []byte) (int, error) {
	n, err := c.ReadCloser.Read(b)
	c.p.given.Add(int64(n))
	return n, err
}
