package berthapi

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"
)

// endless is a store whose backup has no end.
type endless struct {
	Store
	ended chan error
}

func (e *endless) Backup(_ context.Context, w io.Writer) (int64, error) {
	for {
		if _, err := w.Write(make([]byte, 1<<20)); err != nil {
			e.ended <- err
			return 0, err
		}
	}
}

// pipes listens on pipes.
type pipes chan net.Conn

func (p pipes) Accept() (net.Conn, error) {
	c, ok := <-p
	if !ok {
		return nil, net.ErrClosed
	}
	return c, nil
}
func (p pipes) Close() error   { return nil }
func (p pipes) Addr() net.Addr { return &net.UnixAddr{} }

func TestABackupsReaderThatTakesNothingIsGivenUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &endless{ended: make(chan error, 1)}
		a := New(Config{Store: store, Log: slog.New(slog.DiscardHandler)})
		server, listener := &http.Server{Handler: http.HandlerFunc(a.backup)}, make(pipes, 1)
		go func() { _ = server.Serve(listener) }()
		defer close(listener)
		here, there := net.Pipe()
		defer here.Close()
		listener <- there
		if _, err := io.WriteString(here, "GET "+BackupPath+" HTTP/1.1\r\nHost: berth\r\n\r\n"); err != nil {
			t.Fatal(err)
		}
		// One that reads slowly, but reads, is not.
		for range 10 {
			time.Sleep(readerTime / 4)
			if _, err := io.ReadFull(here, make([]byte, 64<<10)); err != nil {
				t.Fatal(err)
			}
		}
		start := time.Now()
		select {
		case <-store.ended:
			if took := time.Since(start); took > readerTime {
				t.Errorf("it was given up after %s", took)
			}
		case <-time.After(time.Hour):
			t.Error("it is waited for without end")
		}
	})
}
