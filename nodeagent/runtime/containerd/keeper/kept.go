package keeper

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"syscall"
	"time"

	"github.com/containerd/fifo"

	"github.com/berth-dev/berth/nodeagent/logs"
)

// slow is how long an attached client may take to accept a piece of output;
// then it is cut off, so that it does not hold up the container.
const slow = 10 * time.Second

// kept are the streams of one container.
type kept struct {
	streams Streams
	stdin   io.WriteCloser // nil: none
	output  []output
	log     *logs.Writer
	done    chan struct{} // closed when the output has ended
	cancel  context.CancelFunc

	mu      sync.Mutex
	clients map[*client]struct{}
	ended   bool
}

// output is stdout or stderr.
type output struct {
	io.ReadCloser
	which stream
}

// client is attached: it gets what the container prints.
type client struct {
	send func(s stream, p []byte) error
	gone chan struct{}
	once sync.Once
}

func (c *client) leave() { c.once.Do(func() { close(c.gone) }) }

// keep opens a container's pipes. The other ends may be opened later.
func keep(s Streams, log *slog.Logger) (*kept, error) {
	ctx, cancel := context.WithCancel(context.Background())
	k := &kept{streams: s, cancel: cancel, done: make(chan struct{}), clients: map[*client]struct{}{}}
	if err := k.open(ctx); err != nil {
		k.drop()
		k.closeLog()
		return nil, err
	}
	var copying sync.WaitGroup
	for _, o := range k.output {
		copying.Go(func() { k.copy(o.which, o, log) })
	}
	go func() {
		copying.Wait()
		k.end()
	}()
	return k, nil
}

func (k *kept) open(ctx context.Context) (err error) {
	s := k.streams
	if s.LogPath != "" {
		if k.log, err = logs.Open(s.LogPath, s.LogMaxBytes, s.LogMaxFiles); err != nil {
			return err
		}
	}
	if s.Stdin != "" {
		if k.stdin, err = fifo.OpenFifo(ctx, s.Stdin, syscall.O_WRONLY|syscall.O_CREAT|syscall.O_NONBLOCK, 0o600); err != nil {
			return fmt.Errorf("open stdin: %w", err)
		}
	}
	for which, path := range map[stream]string{stdout: s.Stdout, stderr: s.Stderr} {
		if path == "" {
			continue
		}
		r, err := fifo.OpenFifo(ctx, path, syscall.O_RDONLY|syscall.O_CREAT|syscall.O_NONBLOCK, 0o600)
		if err != nil {
			return fmt.Errorf("open output: %w", err)
		}
		k.output = append(k.output, output{r, which})
	}
	return nil
}

// copy reads a stream to its end. It reads on when the log can not be written
// (a full disk), since the container would stop else.
func (k *kept) copy(which stream, r io.Reader, log *slog.Logger) {
	var w io.WriteCloser
	if k.log != nil {
		w = k.log.Stream(map[stream]string{stdout: "stdout", stderr: "stderr"}[which])
		defer w.Close()
	}
	buf := make([]byte, maxFrame)
	for broken := false; ; {
		n, err := r.Read(buf)
		if n > 0 {
			if w != nil {
				_, logErr := w.Write(buf[:n])
				if logErr != nil && !broken {
					log.Warn("output is lost: the log can not be written", "path", k.streams.LogPath, "err", logErr)
				}
				broken = logErr != nil
			}
			k.send(which, buf[:n])
		}
		if err != nil {
			return
		}
	}
}

func (k *kept) send(which stream, p []byte) {
	k.mu.Lock()
	clients := make([]*client, 0, len(k.clients))
	for c := range k.clients {
		clients = append(clients, c)
	}
	k.mu.Unlock()
	for _, c := range clients {
		if err := c.send(which, p); err != nil {
			k.detach(c)
		}
	}
}

// attach adds a client; false: the output has ended.
func (k *kept) attach(c *client) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.ended {
		return false
	}
	k.clients[c] = struct{}{}
	return true
}

func (k *kept) detach(c *client) {
	k.mu.Lock()
	delete(k.clients, c)
	k.mu.Unlock()
	c.leave()
}

// end is called when all output was read.
func (k *kept) end() {
	k.mu.Lock()
	k.ended = true
	clients := k.clients
	k.clients = map[*client]struct{}{}
	k.mu.Unlock()
	for c := range clients {
		c.leave()
	}
	k.closeStdin()
	k.closeLog()
	for _, o := range k.output {
		o.Close()
	}
	close(k.done)
}

func (k *kept) closeLog() {
	if k.log != nil {
		k.log.Close()
	}
}

func (k *kept) closeStdin() {
	if k.stdin != nil {
		k.stdin.Close()
	}
}

// drop ends the copying, whether the container ended or not.
func (k *kept) drop() {
	k.cancel()
	k.closeStdin()
	for _, o := range k.output {
		o.Close()
	}
}
