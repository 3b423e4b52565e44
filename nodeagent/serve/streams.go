package serve

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
	"k8s.io/cri-streaming/pkg/streaming/remotecommand"
	utilexec "k8s.io/utils/exec"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// How long a stream may be idle, and may take to be opened.
const (
	idle     = 4 * time.Hour
	creation = 30 * time.Second
)

func (s *Server) exec(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(w, r)
	if !ok {
		return
	}
	if !t.running {
		http.Error(w, fmt.Sprintf("container %q is not running", r.PathValue("container")), http.StatusBadRequest)
		return
	}
	command := r.URL.Query()["command"]
	if len(command) == 0 {
		http.Error(w, "command is missing", http.StatusBadRequest)
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeExec(w, r, reach{s, t}, r.PathValue("pod"), t.uid, r.PathValue("container"), command, opts,
		idle, creation, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) attach(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(w, r)
	if !ok {
		return
	}
	if !t.running {
		http.Error(w, fmt.Sprintf("container %q is not running", r.PathValue("container")), http.StatusBadRequest)
		return
	}
	opts, err := remotecommand.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	remotecommand.ServeAttach(w, r, reach{s, t}, r.PathValue("pod"), t.uid, r.PathValue("container"), opts,
		idle, creation, remotecommand.SupportedStreamingProtocols)
}

func (s *Server) portForward(w http.ResponseWriter, r *http.Request) {
	t, ok := s.find(w, r)
	if !ok {
		return
	}
	if t.sandbox == "" {
		http.Error(w, fmt.Sprintf("pod %q is not running", r.PathValue("pod")), http.StatusBadRequest)
		return
	}
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	portforward.ServePortForward(w, r, reach{s, t}, r.PathValue("pod"), t.uid, opts, idle, creation, portforward.SupportedProtocols)
}

// reach carries streams to one container.
type reach struct {
	s *Server
	t target
}

// ExecInContainer implements remotecommand.Executor.
func (x reach) ExecInContainer(ctx context.Context, _, _, _ string, cmd []string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.s.ctx, cancel)()
	code, err := x.s.cfg.Runtime.Exec(ctx, x.t.id, runtime.ExecConfig{Args: cmd, IO: streams(ctx, in, out, errs, tty, resize)})
	if err != nil {
		return err
	}
	if code != 0 {
		return utilexec.CodeExitError{Err: fmt.Errorf("exit status %d", code), Code: int(code)}
	}
	return nil
}

// AttachContainer implements remotecommand.Attacher.
func (x reach) AttachContainer(ctx context.Context, _, _, _ string, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.s.ctx, cancel)()
	return x.s.cfg.Runtime.Attach(ctx, x.t.id, streams(ctx, in, out, errs, tty || x.t.tty, resize))
}

// PortForward implements portforward.PortForwarder.
func (x reach) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(x.s.ctx, cancel)()
	return x.s.cfg.Runtime.PortForward(ctx, x.t.sandbox, port, stream)
}

// streams translates; a nil interface stays nil.
func streams(ctx context.Context, in io.Reader, out, errs io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) runtime.IO {
	s := runtime.IO{TTY: tty, Stdin: in}
	if out != nil {
		s.Stdout = out
	}
	if errs != nil {
		s.Stderr = errs
	}
	if resize != nil {
		sizes := make(chan runtime.TerminalSize)
		s.Resize = sizes
		go func() {
			defer close(sizes)
			for size := range resize {
				select {
				case sizes <- runtime.TerminalSize{Width: size.Width, Height: size.Height}:
				case <-ctx.Done():
					return
				}
			}
		}()
	}
	return s
}
