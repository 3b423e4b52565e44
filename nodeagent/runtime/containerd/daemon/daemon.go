package daemon

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Config says where a containerd lives and which programs it is made of.
type Config struct {
	// Root keeps images and metadata, State what is gone after a reboot.
	Root, State string
	// Containerd is the program; Path lists the folders where it finds its
	// shim and runc.
	Containerd string
	Path       []string
	Log        *slog.Logger
}

// Address is the socket on which it serves.
func (cfg Config) Address() string { return filepath.Join(cfg.State, "containerd.sock") }

func (cfg Config) logFile() string { return filepath.Join(cfg.State, "containerd.log") }

const (
	readyWithin = 30 * time.Second
	endsWithin  = 10 * time.Second
	maxBackoff  = 10 * time.Second
)

// Daemon is a running containerd.
type Daemon struct {
	cfg    Config
	config string

	mu      sync.Mutex
	process *os.Process
	closing bool

	stop context.CancelFunc
	done chan struct{}
}

// Start starts a containerd and waits until it takes connections.
func Start(ctx context.Context, cfg Config) (*Daemon, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("containers need root: run as root, or without containers (--agent none)")
	}
	config, err := cfg.prepare()
	if err != nil {
		return nil, err
	}
	run, stop := context.WithCancel(context.WithoutCancel(ctx))
	d := &Daemon{cfg: cfg, config: config, stop: stop, done: make(chan struct{})}
	first := make(chan error, 1)
	go d.run(run, first)
	if err := d.awaitReady(ctx, first); err != nil {
		return nil, errors.Join(err, d.Close())
	}
	return d, nil
}

// Address is the socket on which it serves.
func (d *Daemon) Address() string { return d.cfg.Address() }

// run keeps the process going. A child that asks for a signal at its parent's
// death gets it when the thread that forked it ends: hence one goroutine, on
// one thread, starts the process and waits for it.
func (d *Daemon) run(ctx context.Context, first chan<- error) {
	defer close(d.done)
	runtime.LockOSThread()
	for wait := time.Second; ; wait = min(2*wait, maxBackoff) {
		started := time.Now()
		err := d.once()
		select {
		case first <- err:
		default:
		}
		if ctx.Err() != nil {
			return
		}
		if time.Since(started) > time.Minute {
			wait = time.Second
		}
		d.cfg.Log.Warn("containerd ended: starting it again", "err", err, "wait", wait)
		select {
		case <-ctx.Done():
			return
		case <-time.After(wait):
		}
	}
}

// once runs the process until it ends, and says why it did.
func (d *Daemon) once() error {
	log, err := os.OpenFile(d.cfg.logFile(), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("open containerd's log: %w", err)
	}
	defer log.Close()
	cmd := exec.Command(d.cfg.Containerd, "--config", d.config, "--log-level", "warn")
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Env = append(os.Environ(), "PATH="+strings.Join(append(d.cfg.Path, os.Getenv("PATH")), ":"))
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	if err := d.start(cmd); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	err = cmd.Wait()
	return fmt.Errorf("containerd ended (%w): %s", err, lastLine(d.cfg.logFile()))
}

// start starts cmd, unless the daemon is being closed already.
func (d *Daemon) start(cmd *exec.Cmd) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closing {
		return errors.New("closed")
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	d.process = cmd.Process
	return nil
}

func (d *Daemon) awaitReady(ctx context.Context, first <-chan error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWithin)
	defer cancel()
	for {
		var dialer net.Dialer
		conn, err := dialer.DialContext(ctx, "unix", d.Address())
		if err == nil {
			return conn.Close()
		}
		select {
		case err := <-first:
			return err
		case <-ctx.Done():
			return fmt.Errorf("containerd did not become ready: %w: %s", ctx.Err(), lastLine(d.cfg.logFile()))
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// Close ends the process. Shims and containers go on.
func (d *Daemon) Close() error {
	d.stop()
	d.signal(syscall.SIGTERM)
	select {
	case <-d.done:
		return nil
	case <-time.After(endsWithin):
	}
	d.signal(syscall.SIGKILL)
	<-d.done
	return nil
}

func (d *Daemon) signal(s syscall.Signal) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.closing = true
	if d.process != nil {
		_ = d.process.Signal(s) // it may have ended by itself
	}
}

// lastLine gives the end of a log, where the reason of a failure stands.
func lastLine(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return "no log"
	}
	defer f.Close()
	last := "it said nothing"
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text := strings.TrimSpace(lines.Text()); text != "" {
			last = text
		}
	}
	return last
}
