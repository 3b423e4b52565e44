package main

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestAnUploadShowsHowFarItIs(t *testing.T) {
	t.Parallel()
	const kb = 1024
	for _, tt := range []struct {
		name     string
		terminal bool
		took     time.Duration
		want     string
	}{
		{"a quick one on a terminal", true, 100 * time.Millisecond, ""},
		{"a quick one into a log", false, time.Second, ""},
		{"a slow one on a terminal", true, 900 * time.Millisecond, "\r\x1b[Kuploading: 3 of 100 KB, 3 %" +
			"\r\x1b[Kuploading: 5 of 100 KB, 5 %\r\x1b[Kuploading: 7 of 100 KB, 7 %\r\x1b[Kuploading: 9 of 100 KB, 9 %\r\x1b[K"},
		{"a slow one into a log", false, 8 * time.Second, "uploading: 50 of 100 KB, 50 %, 5s left\n"},
		{"one that is there", false, 30 * time.Second, "uploading: 50 of 100 KB, 50 %, 5s left\n"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				var out bytes.Buffer
				p := startProgress(&out, tt.terminal, 100*kb)
				time.Sleep(50 * time.Millisecond)
				for passed := time.Duration(0); passed < tt.took; passed += 100 * time.Millisecond {
					p.given.Add(kb)
					time.Sleep(100 * time.Millisecond)
				}
				p.stop()
				if out.String() != tt.want {
					t.Errorf("it shows %q, want %q", out.String(), tt.want)
				}
			})
		})
	}
	if got := (&progress{total: 10 * kb}).line(10*kb, time.Minute); got != "uploaded 10 KB, the host vets and compiles it" {
		t.Errorf("of a whole one it says %q", got)
	}
}

func TestAnUploadIsCounted(t *testing.T) {
	t.Parallel()
	var got int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got, _ = io.Copy(io.Discard, r.Body) }))
	defer s.Close()
	c := &http.Client{Transport: counting(s.Client().Transport)}
	p := &progress{total: 5000}
	for range 2 { // as if tried again
		ctx := p.counted(context.WithoutCancel(t.Context()))
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL, strings.NewReader(strings.Repeat("x", p.total)))
		if err != nil {
			t.Fatal(err)
		}
		res, err := c.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if got != 5000 || p.given.Load() != 5000 || p.conn.Load() == nil || req.ContentLength != 5000 {
			t.Errorf("%d bytes came, %d were counted", got, p.given.Load())
		}
	}
}
