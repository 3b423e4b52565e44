package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"
)

// lonely is how long a server with nothing to keep and no agent goes on.
const lonely = 5 * time.Second

// Server keeps streams.
type Server struct {
	log *slog.Logger

	mu    sync.Mutex
	kept  map[string]*kept
	conns int
	idle  *time.Timer
}

// NewServer returns a server that keeps nothing yet.
func NewServer(log *slog.Logger) *Server {
	return &Server{log: log, kept: map[string]*kept{}}
}

// Serve answers requests until ctx ends or, if once is told so by untilIdle,
// nothing is kept and nobody is connected.
func (s *Server) Serve(ctx context.Context, l net.Listener, untilIdle bool) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	context.AfterFunc(ctx, func() { l.Close() })
	if untilIdle {
		s.idle = time.AfterFunc(lonely, func() { s.endIfIdle(cancel) })
		defer s.idle.Stop()
	}
	for {
		conn, err := l.Accept()
		if err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return fmt.Errorf("accept: %w", err)
		}
		s.count(+1)
		go func() {
			defer s.count(-1)
			defer conn.Close()
			defer context.AfterFunc(ctx, func() { conn.Close() })()
			if err := s.serve(conn); err != nil && !errors.Is(err, io.EOF) {
				s.log.Debug("request ended", "err", err)
			}
		}()
	}
}

func (s *Server) count(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.conns += n
	if s.idle != nil {
		s.idle.Reset(lonely)
	}
}

func (s *Server) endIfIdle(end func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	busy := s.conns
	for id, k := range s.kept {
		select {
		case <-k.done: // nobody will ask again
			delete(s.kept, id)
		default:
			busy++
		}
	}
	if busy == 0 {
		end()
		return
	}
	s.idle.Reset(lonely)
}

func (s *Server) serve(conn net.Conn) error {
	r := bufio.NewReaderSize(conn, maxLine)
	var req request
	if err := readLine(r, &req); err != nil {
		return err
	}
	switch req.Op {
	case opHold:
		if err := reply(conn, nil); err != nil {
			return err
		}
		_, err := io.Copy(io.Discard, r)
		return err
	case opKeep:
		return reply(conn, s.keep(req.ID, req.Streams))
	case opAttach:
		return s.attach(conn, r, req.ID)
	case opCloseStdin:
		k, err := s.find(req.ID)
		if err == nil {
			k.closeStdin()
		}
		return reply(conn, err)
	case opDrain:
		return reply(conn, s.drain(r, req.ID))
	case opDrop:
		s.drop(req.ID)
		return reply(conn, nil)
	default:
		return reply(conn, fmt.Errorf("unknown operation %q", req.Op))
	}
}

func reply(w io.Writer, err error) error {
	var a answer
	if err != nil {
		a.Error = err.Error()
	}
	if errors.Is(err, ErrUnknown) {
		a.Kind = "unknown"
	}
	return writeLine(w, a)
}

func (s *Server) find(id string) (*kept, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if k := s.kept[id]; k != nil {
		return k, nil
	}
	return nil, ErrUnknown
}

func (s *Server) keep(id string, streams Streams) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.kept[id] != nil {
		return nil
	}
	k, err := keep(streams, s.log)
	if err != nil {
		return err
	}
	s.kept[id] = k
	return nil
}

func (s *Server) drop(id string) {
	s.mu.Lock()
	k := s.kept[id]
	delete(s.kept, id)
	s.mu.Unlock()
	if k != nil {
		k.drop()
	}
}

// drain waits for the end of the output, or of the connection.
func (s *Server) drain(r io.Reader, id string) error {
	k, err := s.find(id)
	if err != nil {
		return nil // dropped: nothing more will be written
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = io.Copy(io.Discard, r)
	}()
	select {
	case <-k.done:
		return nil
	case <-gone:
		return errors.New("the client left")
	}
}

func (s *Server) attach(conn net.Conn, r io.Reader, id string) error {
	k, err := s.find(id)
	if err != nil {
		return reply(conn, err)
	}
	var sending sync.Mutex
	c := &client{gone: make(chan struct{}), send: func(which stream, p []byte) error {
		sending.Lock()
		defer sending.Unlock()
		if err := conn.SetWriteDeadline(time.Now().Add(slow)); err != nil {
			return err
		}
		return writeFrame(conn, which, p)
	}}
	sending.Lock() // the answer goes before all output
	attached := k.attach(c)
	err = reply(conn, nil)
	sending.Unlock()
	if err != nil {
		k.detach(c)
		return err
	}
	if attached {
		go k.feed(r, c)
		<-c.gone
	}
	return c.send(stdout, nil)
}

// feed gives the container what an attached client types.
func (k *kept) feed(r io.Reader, c *client) {
	defer k.detach(c)
	buf := make([]byte, maxFrame)
	for {
		which, p, err := readFrame(r, buf)
		if err != nil {
			return
		}
		if which == stdin && len(p) == 0 {
			if c.send(stdin, []byte{0}) != nil {
				return
			}
			continue
		}
		if which != stdin || k.stdin == nil {
			continue
		}
		if _, err := k.stdin.Write(p); err != nil {
			return
		}
	}
}
