package fake

import (
	"context"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-dev/berth/nodeagent/logs"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Runtime is the fake. Its zero value is not usable; call New. It is large because
// runtime.Runtime is, and tests ask it what was called.
type Runtime struct {
	// Fail, if set, is asked before each call by the method's name and the
	// pod or id; an error is returned instead of doing it.
	Fail func(method, subject string) error
	// NoUserNamespaces is for tests of pods that want one in vain.
	NoUserNamespaces bool
	// NoRecursiveReadOnly is for tests of mounts that are to be so in vain.
	NoRecursiveReadOnly bool

	hangs      atomic.Bool
	mu         sync.Mutex
	next       int
	sandboxes  map[string]*runtime.Sandbox
	containers map[string]*container
	configs    map[string]runtime.SandboxConfig // the last, by the pod's UID
	watchers   map[chan runtime.Event]bool
	calls      []string
}

type container struct {
	runtime.Container
	cfg    runtime.ContainerConfig
	kill   context.CancelFunc
	term   chan struct{}
	done   chan struct{}
	termed bool
	stdin  *io.PipeWriter
	out    *fanout
	layer  *layer
}

// layer counts what a container writes outside of its mounts; it can not be read
// again.
type layer struct{ bytes, files atomic.Int64 }

func (l *layer) Write(p []byte) (int, error) {
	l.bytes.Add(int64(len(p)))
	return len(p), nil
}

// Close ends a file.
func (l *layer) Close() error {
	l.files.Add(1)
	return nil
}

// New gives an empty runtime.
func New() *Runtime {
	return &Runtime{
		sandboxes:  map[string]*runtime.Sandbox{},
		containers: map[string]*container{},
		configs:    map[string]runtime.SandboxConfig{},
		watchers:   map[chan runtime.Event]bool{},
	}
}

// Calls lists the changing calls so far, as "StartContainer web/app".
func (r *Runtime) Calls() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.calls)
}

// Config gives the configuration with which a container was made.
func (r *Runtime) Config(id string) (runtime.ContainerConfig, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return runtime.ContainerConfig{}, false
	}
	return c.cfg, true
}

// Sandbox gives the configuration of a pod's last sandbox, by the pod's UID.
func (r *Runtime) Sandbox(uid string) runtime.SandboxConfig {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.configs[uid]
}

// Crash ends a running container or sandbox from outside with a code.
func (r *Runtime) Crash(id string, code int32, oom bool) {
	r.mu.Lock()
	c, ok := r.containers[id]
	if !ok {
		if s, ok := r.sandboxes[id]; ok {
			s.State = runtime.Exited
			r.emit(runtime.Event{Kind: runtime.SandboxExited, ID: id, Pod: s.Pod})
		}
		r.mu.Unlock()
		return
	}
	c.OOMKilled = oom
	c.ExitCode = code
	kill := c.kill
	r.mu.Unlock()
	if kill != nil {
		kill()
		<-c.done
	}
}

func (r *Runtime) enter(method, subject string) error {
	r.mu.Lock()
	r.calls = append(r.calls, method+" "+subject)
	fail := r.Fail
	r.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(method, subject)
}

// Hang has all calls that look, and change nothing, wait for their contexts'
// ends, as with a runtime that does not answer.
func (r *Runtime) Hang(hangs bool) { r.hangs.Store(hangs) }

// ask is enter for calls that change nothing.
func (r *Runtime) ask(ctx context.Context, method, subject string) error {
	if r.hangs.Load() {
		<-ctx.Done()
		return ctx.Err()
	}
	r.mu.Lock()
	fail := r.Fail
	r.mu.Unlock()
	if fail == nil {
		return nil
	}
	return fail(method, subject)
}

// emit tells watchers; r.mu is held.
func (r *Runtime) emit(e runtime.Event) {
	for w := range r.watchers {
		select {
		case w <- e:
		default:
		}
	}
}

func (r *Runtime) id(kind string) string {
	r.next++
	return fmt.Sprintf("%s-%04d", kind, r.next)
}

// RunSandbox implements runtime.Sandboxes.
func (r *Runtime) RunSandbox(ctx context.Context, cfg runtime.SandboxConfig) (string, error) {
	if err := r.enter("RunSandbox", cfg.Pod.Name); err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.configs[cfg.Pod.UID] = cfg
	s := &runtime.Sandbox{
		ID: r.id("sandbox"), Pod: cfg.Pod, Attempt: cfg.Attempt, State: runtime.Running, CreatedAt: time.Now(),
		NetNS: cfg.NetNS, PID: 1000 + r.next, Labels: maps.Clone(cfg.Labels), Annotations: maps.Clone(cfg.Annotations),
	}
	r.sandboxes[s.ID] = s
	return s.ID, nil
}

// StopSandbox implements runtime.Sandboxes.
func (r *Runtime) StopSandbox(ctx context.Context, id string) error {
	if err := r.enter("StopSandbox", id); err != nil {
		return err
	}
	for _, c := range r.within(id) {
		if err := r.stop(ctx, c, 0); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if s, ok := r.sandboxes[id]; ok && s.State == runtime.Running {
		s.State, s.PID = runtime.Exited, 0
		r.emit(runtime.Event{Kind: runtime.SandboxExited, ID: id, Pod: s.Pod})
	}
	return nil
}

func (r *Runtime) within(sandbox string) []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var ids []string
	for id, c := range r.containers {
		if c.SandboxID == sandbox {
			ids = append(ids, id)
		}
	}
	return ids
}

// RemoveSandbox implements runtime.Sandboxes.
func (r *Runtime) RemoveSandbox(ctx context.Context, id string) error {
	if err := r.StopSandbox(ctx, id); err != nil {
		return err
	}
	for _, c := range r.within(id) {
		if err := r.RemoveContainer(ctx, c); err != nil {
			return err
		}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.sandboxes, id)
	return nil
}

// CreateContainer implements runtime.Containers.
func (r *Runtime) CreateContainer(ctx context.Context, sandboxID string, cfg runtime.ContainerConfig) (string, error) {
	r.mu.Lock()
	s, ok := r.sandboxes[sandboxID]
	r.mu.Unlock()
	if !ok || s.State != runtime.Running {
		return "", fmt.Errorf("sandbox %s: %w", sandboxID, runtime.ErrNotFound)
	}
	if err := r.enter("CreateContainer", s.Pod.Name+"/"+cfg.Name); err != nil {
		return "", err
	}
	images, err := mountedImages(cfg.Mounts)
	if err != nil {
		return "", err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c := &container{cfg: cfg, term: make(chan struct{}), done: make(chan struct{}), out: &fanout{}, layer: &layer{}}
	c.Container = runtime.Container{
		ID: r.id("container"), SandboxID: sandboxID, Pod: s.Pod, Name: cfg.Name, Attempt: cfg.Attempt, Image: cfg.Image,
		MountedImages: images,
		State:         runtime.Created, CreatedAt: time.Now(), LogPath: cfg.LogPath,
		Labels: maps.Clone(cfg.Labels), Annotations: maps.Clone(cfg.Annotations),
	}
	r.containers[c.ID] = c
	return c.ID, nil
}

func mountedImages(mounts []runtime.Mount) (ids []string, err error) {
	for _, m := range mounts {
		if m.Image != "" && (!m.ReadOnly || m.HostPath != "") {
			return nil, fmt.Errorf("ImageVolumeMountFailed: image %s at %s: images are mounted read-only", m.Image, m.ContainerPath)
		}
		if m.Image != "" {
			ids = append(ids, m.Image)
		}
	}
	return ids, nil
}

func (r *Runtime) lookup(id string) (*container, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c, ok := r.containers[id]
	if !ok {
		return nil, fmt.Errorf("container %s: %w", id, runtime.ErrNotFound)
	}
	return c, nil
}

// StartContainer implements runtime.Containers.
func (r *Runtime) StartContainer(ctx context.Context, id string) error {
	c, err := r.lookup(id)
	if err != nil {
		return err
	}
	if err := r.enter("StartContainer", c.Pod.Name+"/"+c.Name); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if c.State != runtime.Created {
		return fmt.Errorf("container %s is %s already", id, c.State)
	}
	if len(c.cfg.Args) > 0 && strings.Contains(c.cfg.Args[0], "no-such") {
		c.State, c.ExitCode, c.StartedAt, c.FinishedAt = runtime.Exited, 127, time.Now(), time.Now()
		close(c.done)
		return fmt.Errorf("exec %q: no such file: %w", c.cfg.Args[0], runtime.ErrStart)
	}
	p, err := r.process(c)
	if err != nil {
		return err
	}
	life, kill := context.WithCancel(context.Background())
	c.kill, c.State, c.StartedAt, c.PID = kill, runtime.Running, time.Now(), 1000+r.next
	r.emit(runtime.Event{Kind: runtime.ContainerStarted, ID: id, Pod: c.Pod})
	go r.live(life, c, p)
	return nil
}

func (r *Runtime) live(ctx context.Context, c *container, p *process) {
	code := p.run(ctx, c.cfg.Args)
	c.out.Close()
	r.mu.Lock()
	defer r.mu.Unlock()
	c.kill()
	if c.ExitCode == 0 {
		c.ExitCode = code
	}
	c.State, c.FinishedAt, c.PID = runtime.Exited, time.Now(), 0
	close(c.done)
	if c.OOMKilled {
		r.emit(runtime.Event{Kind: runtime.ContainerOOM, ID: c.ID, Pod: c.Pod})
	}
	r.emit(runtime.Event{Kind: runtime.ContainerExited, ID: c.ID, Pod: c.Pod})
}

// process connects a container's streams.
func (r *Runtime) process(c *container) (*process, error) {
	p := &process{stdin: strings.NewReader(""), env: map[string]string{}, term: c.term, open: c.open}
	for _, e := range c.cfg.Env {
		p.env[e.Name] = e.Value
	}
	if c.cfg.Stdin {
		in, out := io.Pipe()
		p.stdin, c.stdin = in, out
	}
	stdout, stderr := c.out.stream(false), c.out.stream(true)
	if c.cfg.LogPath != "" {
		w, err := logs.Open(c.cfg.LogPath, c.cfg.LogMaxBytes, c.cfg.LogMaxFiles)
		if err != nil {
			return nil, err
		}
		so, se := w.Stream("stdout"), w.Stream("stderr")
		stdout, stderr = io.MultiWriter(so, stdout), io.MultiWriter(se, stderr)
		c.out.closers = []io.Closer{so, se, w}
	}
	p.stdout, p.stderr = stdout, stderr
	return p, nil
}

// open writes to a file, of one of the container's mounts or of its own.
func (c *container) open(path string) (io.WriteCloser, error) {
	for _, m := range slices.Backward(c.cfg.Mounts) {
		rel, err := filepath.Rel(m.ContainerPath, path)
		if err != nil || strings.HasPrefix(rel, "..") {
			continue
		}
		if m.ReadOnly {
			return nil, fmt.Errorf("%s: read-only file system", path)
		}
		return os.OpenFile(filepath.Join(m.HostPath, rel), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	}
	return c.layer, nil
}

// StopContainer implements runtime.Containers.
func (r *Runtime) StopContainer(ctx context.Context, id string, grace time.Duration) error {
	if err := r.enter("StopContainer", id); err != nil {
		return err
	}
	return r.stop(ctx, id, grace)
}

func (r *Runtime) stop(ctx context.Context, id string, grace time.Duration) error {
	r.mu.Lock()
	c, ok := r.containers[id]
	if !ok || c.State != runtime.Running {
		r.mu.Unlock()
		return nil
	}
	if !c.termed {
		c.termed = true
		if grace > 0 {
			close(c.term)
		}
	}
	r.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-c.done:
		return nil
	case <-timer.C:
	case <-ctx.Done():
		return ctx.Err()
	}
	c.kill()
	<-c.done
	return nil
}

// RemoveContainer implements runtime.Containers.
func (r *Runtime) RemoveContainer(ctx context.Context, id string) error {
	if err := r.enter("RemoveContainer", id); err != nil {
		return err
	}
	if err := r.stop(ctx, id, 0); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.containers, id)
	return nil
}

// UpdateContainer implements runtime.Containers.
func (r *Runtime) UpdateContainer(ctx context.Context, id string, res runtime.Resources) error {
	c, err := r.lookup(id)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	c.cfg.Resources = res
	return nil
}

// List implements runtime.Observer.
func (r *Runtime) List(ctx context.Context) (runtime.Listing, error) {
	if err := r.ask(ctx, "List", ""); err != nil {
		return runtime.Listing{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	var l runtime.Listing
	for _, s := range r.sandboxes {
		l.Sandboxes = append(l.Sandboxes, *s)
	}
	for _, c := range r.containers {
		out := c.Container
		if out.State == runtime.Running {
			out.ExitCode = 0
		}
		l.Containers = append(l.Containers, out)
	}
	return l, nil
}

// Events implements runtime.Observer.
func (r *Runtime) Events(ctx context.Context) (<-chan runtime.Event, error) {
	ch := make(chan runtime.Event, 256)
	r.mu.Lock()
	r.watchers[ch] = true
	r.mu.Unlock()
	context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.watchers, ch)
		close(ch)
	})
	return ch, nil
}

// Stats implements runtime.Observer.
func (r *Runtime) Stats(ctx context.Context) ([]runtime.Stats, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []runtime.Stats
	for _, c := range r.containers {
		if c.State == runtime.Running {
			out = append(out, runtime.Stats{
				ID: c.ID, Pod: c.Pod, Name: c.Name, Time: time.Now(), Pids: 1,
				CPUNanos: uint64(time.Since(c.StartedAt) / 100), MemoryBytes: 2 << 20, WorkingSetBytes: 1 << 20,
			})
		}
	}
	return out, nil
}

// Written implements runtime.Observer.
func (r *Runtime) Written(_ context.Context, ids []string) (map[string]runtime.Disk, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	out := map[string]runtime.Disk{}
	for _, id := range ids {
		if c := r.containers[id]; c != nil {
			out[id] = runtime.Disk{Bytes: c.layer.bytes.Load(), Files: 1 + c.layer.files.Load()}
		}
	}
	return out, nil
}

// User implements runtime.Observer.
func (r *Runtime) User(_ context.Context, id string) (runtime.User, error) {
	c, err := r.lookup(id)
	if err != nil {
		return runtime.User{}, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	user := runtime.User{Groups: slices.Clone(c.cfg.Security.SupplementalGroups)}
	if uid := c.cfg.Security.RunAsUser; uid != nil {
		user.UID = *uid
	}
	if gid := c.cfg.Security.RunAsGroup; gid != nil {
		user.GID = *gid
	}
	return user, nil
}

// Version implements runtime.Observer.
func (r *Runtime) Version(ctx context.Context) (runtime.Version, error) {
	return runtime.Version{Name: "fake", Version: "1", UserNamespaces: !r.NoUserNamespaces, RecursiveReadOnly: !r.NoRecursiveReadOnly}, r.ask(ctx, "Version", "")
}

// PortForward implements runtime.Streams.
func (r *Runtime) PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error {
	r.mu.Lock()
	_, ok := r.sandboxes[sandboxID]
	r.mu.Unlock()
	if !ok {
		return fmt.Errorf("sandbox %s: %w", sandboxID, runtime.ErrNotFound)
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.Close() })()
	go func() {
		io.Copy(conn, stream)
		conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
