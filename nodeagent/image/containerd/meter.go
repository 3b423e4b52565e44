package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/nodeagent/image"
)

// errStalled is how a pull ends to which nothing came for long.
var errStalled = errors.New("the registry sent nothing")

// meter counts what comes of a pull.
type meter struct {
	// bytes that came, and how many are to come by the manifests read so far.
	bytes, total atomic.Int64
	// open is how many requests wait for an answer or for more of one.
	open atomic.Int64
}

// watch tells of progress each second until ctx ends, and returns errStalled if
// requests were open for so long and nothing came.
func (m *meter) watch(ctx context.Context, stalled time.Duration, tell func(image.Progress)) error {
	tick := time.NewTicker(min(time.Second, stalled/2))
	defer tick.Stop()
	last, since := int64(0), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		now := m.bytes.Load()
		if now != last || m.open.Load() == 0 {
			last, since = now, time.Now()
		}
		if time.Since(since) >= stalled {
			return fmt.Errorf("%w for %s", errStalled, stalled)
		}
		if tell != nil {
			tell(image.Progress{Done: now, Total: m.total.Load()})
		}
	}
}

// measure has a client's requests counted. It may be called twice for one.
func (m *meter) measure(c *http.Client) error {
	if _, already := c.Transport.(counting); !already {
		c.Transport = counting{c.Transport, m}
	}
	return nil
}

// counting counts the requests that next makes.
type counting struct {
	next http.RoundTripper
	*meter
}

func (c counting) RoundTrip(r *http.Request) (*http.Response, error) {
	c.open.Add(1)
	answer, err := c.next.RoundTrip(r)
	if err != nil {
		c.open.Add(-1)
		return nil, err
	}
	answer.Body = &counted{ReadCloser: answer.Body, meter: c.meter}
	return answer, nil
}

// counted is the body of an answer.
type counted struct {
	io.ReadCloser
	*meter
	closed atomic.Bool
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes.Add(int64(n))
	return n, err
}

func (c *counted) Close() error {
	if !c.closed.Swap(true) {
		c.open.Add(-1)
	}
	return c.ReadCloser.Close()
}
