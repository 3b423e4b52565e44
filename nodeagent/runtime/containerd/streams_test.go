package containerd_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

func testTTY(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	sizes := make(chan runtime.TerminalSize, 1)
	sizes <- runtime.TerminalSize{Width: 123, Height: 45}
	var out bytes.Buffer
	code, err := n.runtime.Exec(t.Context(), id, runtime.ExecConfig{
		Args: []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do stty size 2>/dev/null | grep '45 123' && exit 0; sleep 0.2; done; exit 1"},
		IO:   runtime.IO{Stdin: new(blocking), Stdout: &out, TTY: true, Resize: sizes},
	})
	if err != nil || code != 0 || out.String() != "45 123\r\n" {
		t.Errorf("Exec = %d, %v, output %q", code, err, out.String())
	}
	cfg := p.config("tty; echo $TERM")
	cfg.TTY = true
	if got := p.output(cfg); got != "/dev/pts/0\r\nxterm\r\n" {
		t.Errorf("a container with a terminal prints %q", got)
	}
}

// blocking is a reader whose user types nothing.
type blocking struct{}

func (*blocking) Read([]byte) (int, error) { select {} }

func testPortForward(t *testing.T, n *node) {
	p := n.pod(t, func(c *runtime.SandboxConfig) { c.NetNS = string(netnstest.New(t)) })
	p.start(p.config("while true; do echo pong | nc -l -p 7777; done"))
	polltest.Until(t, "the port answers", func() bool {
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- n.runtime.PortForward(t.Context(), p.id, 7777, far) }()
		near.SetReadDeadline(time.Now().Add(5 * time.Second))
		line := make([]byte, 5)
		_, err := io.ReadFull(near, line)
		near.Close()
		far.Close()
		<-done
		return err == nil && string(line) == "pong\n" // else it does not listen yet
	})
}

func testRotation(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("i=0; while [ $i -lt 200 ]; do echo line $i; i=$((i+1)); done")
	cfg.LogMaxBytes, cfg.LogMaxFiles = 2000, 3
	if got := p.output(cfg); !strings.HasSuffix(got, "line 199\n") {
		t.Errorf("the newest log ends in %q", got)
	}
	files, err := filepath.Glob(cfg.LogPath + "*")
	if err != nil || len(files) != 3 {
		t.Errorf("log files %v, want 3", files)
	}
}

func testBackground(t *testing.T, n *node) {
	p := n.pod(t, nil)
	id := p.start(p.config("sleep 600"))
	start := time.Now()
	var out bytes.Buffer
	code, err := n.runtime.Exec(t.Context(), id, runtime.ExecConfig{
		Args: []string{"/bin/sh", "-c", "echo x; sleep 300 & exit 4"}, IO: runtime.IO{Stdout: &out},
	})
	if err != nil || code != 4 || out.String() != "x\n" {
		t.Errorf("Exec = %d, %v, output %q", code, err, out.String())
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("it took %v", took)
	}
}

func testLastOutput(t *testing.T, n *node) {
	p := n.pod(t, nil)
	cfg := p.config("seq 1 8000")
	p.ended(p.start(cfg))
	if got := logged(t, cfg.LogPath); !strings.HasSuffix(got, "\n8000\n") {
		t.Errorf("at the exit the log ends in %q", got[max(0, len(got)-30):])
	}
}
