package keeper

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
)

// Client speaks to a keeper.
type Client struct{ socket string }

// At gives a client of the keeper at a socket.
func At(socket string) *Client { return &Client{socket: socket} }

// Keep opens a container's streams; doing it again changes nothing.
func (c *Client) Keep(ctx context.Context, id string, s Streams) error {
	return c.call(ctx, request{Op: opKeep, ID: id, Streams: s})
}

// CloseStdin ends the container's input.
func (c *Client) CloseStdin(ctx context.Context, id string) error {
	return c.call(ctx, request{Op: opCloseStdin, ID: id})
}

// Drain waits until a container's output has ended and is written.
func (c *Client) Drain(ctx context.Context, id string) error {
	return c.call(ctx, request{Op: opDrain, ID: id})
}

// Drop forgets a container; the absent one is forgotten.
func (c *Client) Drop(ctx context.Context, id string) error {
	return c.call(ctx, request{Op: opDrop, ID: id})
}

// Hold tells the keeper that an agent is here. The channel is closed when the
// keeper ends; calling the function lets go.
func (c *Client) Hold(ctx context.Context) (gone <-chan struct{}, release func(), err error) {
	conn, r, err := c.ask(ctx, request{Op: opHold})
	if err != nil {
		return nil, nil, err
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = io.Copy(io.Discard, r)
	}()
	return ended, func() { conn.Close() }, nil
}

// Attach copies between a container's streams and those given (nil ones are
// left out) until the output ends or ctx does. When all of in has reached the
// container's pipe, onEOF is called: whoever closes the pipe loses nothing.
func (c *Client) Attach(ctx context.Context, id string, in io.Reader, out, errs io.Writer, onEOF func()) error {
	conn, r, err := c.ask(ctx, request{Op: opAttach, ID: id})
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	fed := make(chan struct{})
	if in != nil {
		go func() { // ends with in, or when the connection does
			if feed(conn, in) == nil && onEOF != nil {
				<-fed
				onEOF()
			}
		}()
	}
	err = receive(r, out, errs, sync.OnceFunc(func() { close(fed) }))
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return err
}

func feed(w io.Writer, in io.Reader) error {
	buf := make([]byte, maxFrame)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			if err := writeFrame(w, stdin, buf[:n]); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return writeFrame(w, stdin, nil)
		}
		if err != nil {
			return err
		}
	}
}

// receive reads output until its end. A frame of stdin, in which nothing is
// meant, says that the input was fed.
func receive(r io.Reader, out, errs io.Writer, fed func()) error {
	defer fed()
	buf := make([]byte, maxFrame)
	for {
		which, p, err := readFrame(r, buf)
		if err != nil {
			return fmt.Errorf("the stream broke: %w", err)
		}
		if len(p) == 0 {
			return nil
		}
		if which == stdin {
			fed()
			continue
		}
		w := out
		if which == stderr {
			w = errs
		}
		if w == nil {
			continue
		}
		if _, err := w.Write(p); err != nil {
			return fmt.Errorf("write output: %w", err)
		}
	}
}

func (c *Client) call(ctx context.Context, req request) error {
	conn, _, err := c.ask(ctx, req)
	if err != nil {
		return err
	}
	return conn.Close()
}

// ask sends a request and reads the answer; what follows is the caller's.
func (c *Client) ask(ctx context.Context, req request) (net.Conn, *bufio.Reader, error) {
	var dialer net.Dialer
	conn, err := dialer.DialContext(ctx, "unix", c.socket)
	if err != nil {
		return nil, nil, fmt.Errorf("reach the stream keeper: %w", err)
	}
	var once sync.Once
	fail := func(err error) (net.Conn, *bufio.Reader, error) {
		once.Do(func() { conn.Close() })
		if ctx.Err() != nil {
			err = ctx.Err()
		}
		return nil, nil, fmt.Errorf("stream keeper: %s: %w", req.Op, err)
	}
	stop := context.AfterFunc(ctx, func() { once.Do(func() { conn.Close() }) })
	defer stop()
	if err := writeLine(conn, req); err != nil {
		return fail(err)
	}
	r := bufio.NewReaderSize(conn, maxLine)
	var a answer
	if err := readLine(r, &a); err != nil {
		return fail(err)
	}
	switch {
	case a.Kind == "unknown":
		return fail(ErrUnknown)
	case a.Error != "":
		return fail(errors.New(a.Error))
	}
	return conn, r, nil
}
