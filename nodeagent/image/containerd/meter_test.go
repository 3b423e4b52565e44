package containerd

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/nodeagent/image"
)

func TestAPullIsWatched(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		m := new(meter)
		var last atomic.Pointer[image.Progress]
		ended := make(chan error, 1)
		go func() {
			ended <- m.watch(t.Context(), time.Minute, func(p image.Progress) { last.Store(&p) })
		}()
		m.total.Store(100)
		time.Sleep(time.Hour + time.Second/2) // unpacking: nothing is asked of the registry
		m.open.Store(1)
		for range 10 {
			time.Sleep(58 * time.Second)
			m.bytes.Add(7)
		}
		time.Sleep(2 * time.Second)
		if want := (image.Progress{Done: 70, Total: 100}); *last.Load() != want {
			t.Errorf("it told %v, want %v", *last.Load(), want)
		}
		began := time.Now()
		if err := <-ended; !errors.Is(err, errStalled) {
			t.Errorf("watch = %v", err)
		}
		if took := time.Since(began); took < 57*time.Second || took > time.Minute {
			t.Errorf("it ended %s after the last byte, want a minute", took+2*time.Second)
		}
	})
}

func TestAPullThatEndsIsNotWatchedOn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		m := new(meter)
		m.open.Store(1)
		time.AfterFunc(time.Second/2, cancel)
		if err := m.watch(ctx, time.Minute, nil); err != nil {
			t.Errorf("watch = %v", err)
		}
	})
}

// trip answers each request the same way.
type trip func() (*http.Response, error)

func (f trip) RoundTrip(*http.Request) (*http.Response, error) { return f() }

func TestRequestsAreCounted(t *testing.T) {
	t.Parallel()
	m := new(meter)
	c := &http.Client{Transport: trip(func() (*http.Response, error) {
		if n := m.open.Load(); n != 1 {
			t.Errorf("%d requests are open while one is made", n)
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader("12345"))}, nil
	})}
	for range 2 { // what is measured already stays as it is
		if err := m.measure(c); err != nil {
			t.Fatal(err)
		}
	}
	answer, err := c.Get("http://registry.test/v2/")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, answer.Body); err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	answer.Body.Close()
	if m.bytes.Load() != 5 || m.open.Load() != 0 {
		t.Errorf("%d bytes came, %d requests are open; want 5 and 0", m.bytes.Load(), m.open.Load())
	}
	c.Transport = counting{trip(func() (*http.Response, error) { return nil, errors.New("no route") }), m}
	if _, err := c.Get("http://registry.test/v2/"); err == nil || m.open.Load() != 0 {
		t.Errorf("a request that failed: %v, and %d are open", err, m.open.Load())
	}
}
