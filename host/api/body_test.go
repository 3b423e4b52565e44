package api

import (
	"bytes"
	"errors"
	"io"
	"os"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// slowBody gives a few bytes now and then, until its deadline has passed.
type slowBody struct {
	every time.Duration
	bytes int
	left  int
	over  atomic.Bool
}

func (s *slowBody) Read(p []byte) (int, error) {
	time.Sleep(s.every)
	if s.over.Load() {
		return 0, os.ErrDeadlineExceeded
	}
	if s.left <= 0 {
		return 0, io.EOF
	}
	n := min(len(p), s.bytes, s.left)
	s.left -= n
	return n, nil
}

func (s *slowBody) Close() error { return nil }

func TestASlowLinkBringsAModule(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name            string
		module          bool
		seconds, second int // bytes a second
		want            error
	}{
		{"a module that takes two minutes", true, 120, 30 << 10, nil},
		{"one that comes by the byte", true, 3600, 1, os.ErrDeadlineExceeded},
		{"one that takes an hour", true, 3600, 10 << 10, os.ErrDeadlineExceeded},
		{"another body that takes two minutes", false, 120, 30 << 10, os.ErrDeadlineExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				body := &slowBody{every: time.Second, bytes: tt.second, left: tt.seconds * tt.second}
				p := newIODeadline(bodyTime, func(time.Time) error { body.over.Store(true); return nil })
				defer p.Stop()
				a := &deadlineBody{ReadCloser: body, deadline: p}
				if tt.module {
					a.until = time.Now().Add(uploadTime)
				}
				var got bytes.Buffer
				if _, err := io.Copy(&got, a); !errors.Is(err, tt.want) {
					t.Errorf("after %d bytes: %v, want %v", got.Len(), err, tt.want)
				}
			})
		})
	}
}
