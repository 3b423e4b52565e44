package socket

import (
	"bytes"
	"errors"
	"io"
	"net"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
)

// pair is a gathering connection over TCP, and its peer.
func pair(t *testing.T) (*conn, net.Conn) {
	t.Helper()
	below, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := Listener{below}
	defer l.Close()
	peer, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	ours, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = ours.Close(); _ = peer.Close() })
	return ours.(*conn), peer
}

func TestBytesKeepTheirOrder(t *testing.T) {
	t.Parallel()
	ours, peer := pair(t)
	var want []byte
	for i := range 2000 {
		want = append(want, bytes.Repeat([]byte{byte(i)}, i%700)...)
	}
	go func() {
		for left := want; len(left) > 0; {
			n := min(1+len(left)%997, len(left))
			if _, err := ours.Write(left[:n]); err != nil {
				t.Error(err)
			}
			left = left[n:]
		}
		if err := ours.Close(); err != nil {
			t.Error(err)
		}
	}()
	got, err := io.ReadAll(peer)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%d bytes arrived, want the %d that were written", len(got), len(want))
	}
}

// counted counts the writes that reach it. The first waits for let.
type counted struct {
	net.Conn
	writes atomic.Int64
	begun  chan struct{}
	let    chan struct{}
}

func (c *counted) Write(p []byte) (int, error) {
	if c.writes.Add(1) == 1 {
		close(c.begun)
		<-c.let
	}
	return c.Conn.Write(p)
}

func TestWhatComesDuringAWriteGoesOutTogether(t *testing.T) {
	t.Parallel()
	below, peer := net.Pipe()
	slow := &counted{Conn: below, begun: make(chan struct{}), let: make(chan struct{})}
	c := gather(slow)
	mustWrite(t, c, "first")
	<-slow.begun
	for range 10 {
		mustWrite(t, c, "-more")
	}
	close(slow.let)
	got := make([]byte, len("first")+10*len("-more"))
	if _, err := io.ReadFull(peer, got); err != nil {
		t.Fatal(err)
	}
	if n := slow.writes.Load(); n != 2 {
		t.Errorf("%d writes, want 2", n)
	}
}

func mustWrite(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := c.Write([]byte(text)); n != len(text) || err != nil {
		t.Fatalf("Write = %d, %v", n, err)
	}
}

func TestAPeerThatDoesNotReadHoldsTheWriterUp(t *testing.T) {
	t.Parallel()
	below, peer := net.Pipe()
	defer peer.Close()
	c := gather(below)
	done := make(chan error, 1)
	var taken atomic.Int64
	go func() {
		for {
			n, err := c.Write(make([]byte, most/4))
			if err != nil {
				done <- err
				return
			}
			taken.Add(int64(n))
		}
	}()
	// A pipe holds nothing: what is taken in is what this package holds.
	polltest.Until(t, "much is taken in", func() bool { return taken.Load() >= most })
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-done; err == nil {
		t.Error("the writer was not told that the connection is closed")
	}
	if n := taken.Load(); n > 3*most {
		t.Errorf("%d bytes were taken in from a writer whose peer does not read, want at most %d", n, 3*most)
	}
}

func TestAnErrorIsToldToTheNextWrite(t *testing.T) {
	t.Parallel()
	below, peer := net.Pipe()
	_ = peer.Close()
	c := gather(below)
	deadline := time.Now().Add(10 * time.Second)
	for {
		_, err := c.Write([]byte("x"))
		if errors.Is(err, io.ErrClosedPipe) {
			return
		}
		if err != nil || time.Now().After(deadline) {
			t.Fatalf("Write = %v, want %v", err, io.ErrClosedPipe)
		}
	}
}

func TestAReaderIsLetGoByClose(t *testing.T) {
	t.Parallel()
	ours, _ := pair(t)
	mustWrite(t, ours, "something that may still be under way")
	read := make(chan error, 1)
	go func() {
		_, err := ours.Read(make([]byte, 1))
		read <- err
	}()
	if err := ours.Close(); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-read:
		if err == nil {
			t.Error("a closed connection gave something to read")
		}
	case <-time.After(time.Minute):
		t.Error("a reader waits on a closed connection")
	}
	if err := ours.Close(); !errors.Is(err, net.ErrClosed) {
		t.Errorf("a second Close = %v, want %v", err, net.ErrClosed)
	}
}

// crypto/tls ends a connection so: the last alert, then a deadline that is over.
func TestADeadlineThatIsOverLeavesWhatWasTakenIn(t *testing.T) {
	t.Parallel()
	for name, set := range map[string]func(*conn, time.Time) error{
		"write": (*conn).SetWriteDeadline, "all": (*conn).SetDeadline,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ours, peer := net.Pipe()
			slow := &counted{Conn: ours, begun: make(chan struct{}), let: make(chan struct{})}
			c := gather(slow)
			mustWrite(t, c, "first")
			<-slow.begun
			mustWrite(t, c, " and last")
			if err := set(c, time.Now()); err != nil {
				t.Fatal(err)
			}
			if _, err := c.Write([]byte("late")); !errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("a write after the deadline = %v, want %v", err, os.ErrDeadlineExceeded)
			}
			if err := c.Close(); err != nil {
				t.Fatal(err)
			}
			close(slow.let)
			got, err := io.ReadAll(peer)
			if err != nil || string(got) != "first and last" {
				t.Errorf("the peer read %q, %v; want all that was taken in", got, err)
			}
		})
	}
}
