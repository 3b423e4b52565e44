// Package logtest keeps what several goroutines write, for tests that read it
// meanwhile.
package logtest

import (
	"bytes"
	"strings"
	"sync"
)

// Text is what was written so far. It is safe for concurrent use.
type Text struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (t *Text) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.Write(p)
}

// String is all of it.
func (t *Text) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.text.String()
}

// Has says whether it contains something.
func (t *Text) Has(s string) bool { return strings.Contains(t.String(), s) }
