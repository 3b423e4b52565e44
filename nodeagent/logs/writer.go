package logs

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"sync"
	"time"
)

// maxPiece is the longest text of one record; longer lines are cut in pieces.
const maxPiece = 16 << 10

// Writer appends records to one container's log file.
type Writer struct {
	path     string
	maxBytes int64
	maxFiles int
	now      func() time.Time

	mu     sync.Mutex
	file   *os.File
	size   int64
	closed bool
}

// Open appends to the file at path. When the file would grow over maxBytes it
// is rotated, and at most maxFiles files are kept, the newest included;
// maxBytes 0 never rotates.
func Open(path string, maxBytes int64, maxFiles int) (*Writer, error) {
	w := &Writer{path: path, maxBytes: maxBytes, maxFiles: max(maxFiles, 1), now: time.Now}
	if err := w.reopen(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) reopen() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o640)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	w.file, w.size = f, info.Size()
	return nil
}

// Close closes the file. Streams still open write their rest first if they are
// closed before it.
func (w *Writer) Close() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	w.file = nil
	return err
}

// Stream gives a writer for "stdout" or "stderr" that cuts what it gets into
// records. Closing it writes an unfinished line.
func (w *Writer) Stream(name string) io.WriteCloser {
	return &stream{log: w, name: name}
}

func (w *Writer) record(stream, tag string, text []byte) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return os.ErrClosed
	}
	if w.file == nil { // it could not be rotated
		if err := w.reopen(); err != nil {
			return err
		}
	}
	line := make([]byte, 0, len(text)+64)
	line = w.now().UTC().AppendFormat(line, time.RFC3339Nano)
	line = append(line, ' ')
	line = append(line, stream...)
	line = append(line, ' ')
	line = append(line, tag...)
	line = append(line, ' ')
	line = append(line, text...)
	line = append(line, '\n')
	if w.maxBytes > 0 && w.size > 0 && w.size+int64(len(line)) > w.maxBytes {
		if err := w.rotate(); err != nil {
			return err
		}
	}
	n, err := w.file.Write(line)
	w.size += int64(n)
	return err
}

func (w *Writer) rotate() error {
	w.file.Close()
	w.file = nil
	if w.maxFiles == 1 {
		os.Remove(w.path)
		return w.reopen()
	}
	os.Remove(rotated(w.path, w.maxFiles-1))
	for i := w.maxFiles - 2; i >= 0; i-- {
		if err := os.Rename(rotated(w.path, i), rotated(w.path, i+1)); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("rotate log: %w", err)
		}
	}
	return w.reopen()
}

// rotated names the i-th older file; 0 is the newest.
func rotated(path string, i int) string {
	if i == 0 {
		return path
	}
	return fmt.Sprintf("%s.%d", path, i)
}

type stream struct {
	log  *Writer
	name string
	rest []byte
}

func (s *stream) Write(p []byte) (int, error) {
	n := len(p)
	for len(p) > 0 {
		i := bytes.IndexByte(p, '\n')
		if i < 0 {
			s.rest = append(s.rest, p...)
			p = nil
		} else {
			s.rest = append(s.rest, p[:i]...)
			p = p[i+1:]
		}
		for len(s.rest) > maxPiece {
			if err := s.log.record(s.name, "P", s.rest[:maxPiece]); err != nil {
				s.rest = s.rest[:0] // lost: it must not pile up
				return 0, err
			}
			s.rest = append(s.rest[:0], s.rest[maxPiece:]...)
		}
		if i < 0 {
			break
		}
		err := s.log.record(s.name, "F", s.rest)
		s.rest = s.rest[:0]
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

func (s *stream) Close() error {
	if len(s.rest) == 0 {
		return nil
	}
	err := s.log.record(s.name, "P", s.rest)
	s.rest = nil
	return err
}
