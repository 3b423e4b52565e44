package keeper

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
)

// The operations of a request.
const (
	opHold       = "hold"        // an agent is here, as long as the connection lives
	opKeep       = "keep"        // open the streams of a container
	opAttach     = "attach"      // join them
	opCloseStdin = "close-stdin" // end the container's input
	opDrain      = "drain"       // wait till the output has ended and is written
	opDrop       = "drop"        // forget a container
)

// request is what a connection begins with.
type request struct {
	Op      string
	ID      string  `json:",omitempty"`
	Streams Streams `json:",omitzero"`
}

type answer struct {
	// Kind is set with Error and tells errors apart.
	Kind  string `json:",omitempty"`
	Error string `json:",omitempty"`
}

// Streams are a container's: paths of named pipes (empty: not wanted), and
// where its output is written.
type Streams struct {
	Stdin, Stdout, Stderr string
	LogPath               string
	LogMaxBytes           int64
	LogMaxFiles           int
}

// ErrUnknown: the container's streams are not kept.
var ErrUnknown = errors.New("the container's streams are not kept")

const (
	maxLine  = 64 << 10
	maxFrame = 32 << 10
)

func writeLine(w io.Writer, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("encode: %w", err)
	}
	_, err = w.Write(append(b, '\n'))
	return err
}

// readLine decodes one line into v. The reader's buffer bounds its length.
func readLine(r *bufio.Reader, v any) error {
	line, err := r.ReadSlice('\n')
	if err != nil {
		return fmt.Errorf("read a line: %w", err)
	}
	if err := json.Unmarshal(line, v); err != nil {
		return fmt.Errorf("decode a line: %w", err)
	}
	return nil
}

// stream says which stream a frame belongs to.
type stream byte

const (
	stdin stream = iota
	stdout
	stderr
)

func writeFrame(w io.Writer, s stream, p []byte) error {
	b := make([]byte, 5, 5+len(p))
	b[0] = byte(s)
	binary.BigEndian.PutUint32(b[1:], uint32(len(p)))
	_, err := w.Write(append(b, p...))
	return err
}

// readFrame reads a frame into buf, which holds maxFrame bytes.
func readFrame(r io.Reader, buf []byte) (stream, []byte, error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, nil, err
	}
	s, n := stream(head[0]), binary.BigEndian.Uint32(head[1:])
	if s > stderr {
		return 0, nil, fmt.Errorf("frame of unknown stream %d", s)
	}
	if n > maxFrame {
		return 0, nil, fmt.Errorf("frame of %d bytes, at most %d are allowed", n, maxFrame)
	}
	if _, err := io.ReadFull(r, buf[:n]); err != nil {
		return 0, nil, fmt.Errorf("read a frame: %w", err)
	}
	return s, buf[:n], nil
}
