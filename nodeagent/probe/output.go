package probe

import (
	"bytes"
	"sync"
)

// maxOutput is how much of a command's output is kept.
const maxOutput = 10 << 10

// Output keeps the beginning of what a command writes and swallows the rest. It
// may be both of its outputs, which a runtime copies side by side.
type Output struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.buf.Write(p[:min(len(p), maxOutput-o.buf.Len())])
	return len(p), nil
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buf.String()
}
