// Package runtimetest is the suite that each runtime.Runtime passes.
//
// It runs one-line scripts (echo, sleep, exit, cat, trap, true) by
// /bin/sh -c, so a real implementation needs an image with a shell, such as
// busybox; the fake understands these words itself.
package runtimetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Fixture is one runtime under test.
type Fixture struct {
	Runtime runtime.Runtime
	// Image is the id of an image with /bin/sh and the usual words.
	Image string
	// Restart, if set, gives a second Runtime over the same state, as after a
	// restart of the agent.
	Restart func(t *testing.T) runtime.Runtime
}

// Run runs the suite; open is called once for each test.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, *bench){
		"a container runs to its end and keeps its exit code":       testExitCode,
		"output goes to the log in CRI format":                      testLog,
		"stop sends the signal and returns at the end":              testStop,
		"stop kills what ignores the signal":                        testKill,
		"stop and remove of what is absent succeed":                 testIdempotent,
		"list gives back what the agent stored":                     testList,
		"removing a sandbox removes its containers":                 testRemoveSandbox,
		"stopping a sandbox ends its containers":                    testStopSandbox,
		"environment reaches the process":                           testEnv,
		"a writable mount reaches the machine":                      testMount,
		"an image is mounted read-only":                             testImageMount,
		"exec gives code and streams":                               testExec,
		"exec ends with its context":                                testExecContext,
		"exec into a stopped container is refused":                  testExecStopped,
		"attach reaches stdin and stdout":                           testAttach,
		"a missing executable is a start error and an exited state": testNoExecutable,
		"events tell starts and ends":                               testEvents,
		"stats measure what runs":                                   testStats,
		"what a container wrote is measured":                        testWritten,
		"port-forward of an unknown sandbox is not found":           testPortForwardUnknown,
		"a second runtime finds what runs":                          testRestart,
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			t.Cleanup(cancel)
			test(t, &bench{Fixture: f, t: t, ctx: ctx, pod: runtime.PodMeta{
				Namespace: "default", Name: "p", UID: fmt.Sprintf("uid-%d", time.Now().UnixNano()),
			}})
		})
	}
}

type bench struct {
	Fixture
	t   *testing.T
	ctx context.Context
	pod runtime.PodMeta
}

func (b *bench) sandbox() string {
	b.t.Helper()
	id, err := b.Runtime.RunSandbox(b.ctx, runtime.SandboxConfig{
		Pod: b.pod, Attempt: 3, Hostname: "p", Labels: map[string]string{"l": "1"}, Annotations: map[string]string{"a": "2"},
		CgroupParent: "/berth-test/pod" + b.pod.UID,
	})
	if err != nil {
		b.t.Fatalf("RunSandbox: %v", err)
	}
	b.t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
		defer cancel()
		if err := b.Runtime.RemoveSandbox(ctx, id); err != nil {
			b.t.Errorf("RemoveSandbox: %v", err)
		}
	})
	return id
}

func (b *bench) config(script string) runtime.ContainerConfig {
	return runtime.ContainerConfig{
		Name: "app", Attempt: 2, Image: b.Image, Args: []string{"/bin/sh", "-c", script},
		LogPath: filepath.Join(b.t.TempDir(), "0.log"),
		Labels:  map[string]string{"k": "v"}, Annotations: map[string]string{"n": "w"},
	}
}

func (b *bench) create(sandbox string, cfg runtime.ContainerConfig) string {
	b.t.Helper()
	id, err := b.Runtime.CreateContainer(b.ctx, sandbox, cfg)
	if err != nil {
		b.t.Fatalf("CreateContainer: %v", err)
	}
	return id
}

func (b *bench) start(sandbox string, cfg runtime.ContainerConfig) string {
	b.t.Helper()
	id := b.create(sandbox, cfg)
	if err := b.Runtime.StartContainer(b.ctx, id); err != nil {
		b.t.Fatalf("StartContainer: %v", err)
	}
	return id
}

func (b *bench) find(id string) (runtime.Container, bool) {
	b.t.Helper()
	list, err := b.Runtime.List(b.ctx)
	if err != nil {
		b.t.Fatalf("List: %v", err)
	}
	for _, c := range list.Containers {
		if c.ID == id {
			return c, true
		}
	}
	return runtime.Container{}, false
}

// await polls till the container is in the state.
func (b *bench) await(id string, state runtime.State) runtime.Container {
	b.t.Helper()
	for {
		c, ok := b.find(id)
		if ok && c.State == state {
			return c
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("container %s is %q, want %q", id, c.State, state)
		case <-time.After(10 * time.Millisecond):
		}
	}
}

func testExitCode(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("exit 7"))
	c := b.await(id, runtime.Exited)
	if c.ExitCode != 7 || c.OOMKilled {
		t.Errorf("exit code %d, OOM %v; want 7, false", c.ExitCode, c.OOMKilled)
	}
	if c.StartedAt.IsZero() || c.FinishedAt.Before(c.StartedAt) {
		t.Errorf("started %v, finished %v", c.StartedAt, c.FinishedAt)
	}
}

func testLog(t *testing.T, b *bench) {
	cfg := b.config("echo out; echo err >&2")
	b.await(b.start(b.sandbox(), cfg), runtime.Exited)
	var text string
	for range 200 { // the log may be written a moment after the end
		data, err := os.ReadFile(cfg.LogPath)
		if err != nil {
			t.Fatal(err)
		}
		if text = string(data); strings.Count(text, "\n") == 2 {
			break
		}
		time.Sleep(10 * time.Millisecond)
	}
	for _, want := range []string{" stdout F out\n", " stderr F err\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("log %q lacks %q", text, want)
		}
	}
}

func testStop(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("trap 'exit 143' TERM; sleep 0.1; exit 5"))
	b.await(id, runtime.Running)
	start := time.Now()
	if err := b.Runtime.StopContainer(b.ctx, id, 20*time.Second); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	if took := time.Since(start); took > 15*time.Second {
		t.Errorf("stop took %v", took)
	}
	if c, ok := b.find(id); !ok || c.State != runtime.Exited {
		t.Errorf("after stop: %+v", c)
	}
}

func testKill(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("trap '' TERM; sleep 600"))
	b.await(id, runtime.Running)
	time.Sleep(200 * time.Millisecond)
	if err := b.Runtime.StopContainer(b.ctx, id, 300*time.Millisecond); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	if c := b.await(id, runtime.Exited); c.ExitCode != 137 {
		t.Errorf("exit code %d, want 137", c.ExitCode)
	}
}

func testIdempotent(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	id := b.start(sandbox, b.config("exit 0"))
	b.await(id, runtime.Exited)
	for range 2 {
		for name, err := range map[string]error{
			"StopContainer":   b.Runtime.StopContainer(b.ctx, id, time.Second),
			"RemoveContainer": b.Runtime.RemoveContainer(b.ctx, id),
			"StopSandbox":     b.Runtime.StopSandbox(b.ctx, sandbox),
			"RemoveSandbox":   b.Runtime.RemoveSandbox(b.ctx, sandbox),
		} {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func testList(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	cfg := b.config("sleep 600")
	id := b.create(sandbox, cfg)
	c := b.await(id, runtime.Created)
	if c.Pod != b.pod || c.Name != "app" || c.Attempt != 2 || c.SandboxID != sandbox || c.LogPath != cfg.LogPath || c.Image != cfg.Image {
		t.Errorf("listed %+v", c)
	}
	if c.Labels["k"] != "v" || c.Annotations["n"] != "w" {
		t.Errorf("labels %v, annotations %v", c.Labels, c.Annotations)
	}
	testListedSandbox(t, b, sandbox)
}

func testListedSandbox(t *testing.T, b *bench, sandbox string) {
	list, err := b.Runtime.List(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		if s.ID != sandbox {
			continue
		}
		if s.Pod != b.pod || s.Attempt != 3 || s.State != runtime.Running || s.Labels["l"] != "1" || s.Annotations["a"] != "2" {
			t.Errorf("listed %+v", s)
		}
		return
	}
	t.Errorf("sandbox %s is not listed", sandbox)
}

func testRemoveSandbox(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	id := b.start(sandbox, b.config("sleep 600"))
	if err := b.Runtime.RemoveSandbox(b.ctx, sandbox); err != nil {
		t.Fatalf("RemoveSandbox: %v", err)
	}
	if c, ok := b.find(id); ok {
		t.Errorf("container is still listed: %+v", c)
	}
}

func testStopSandbox(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	id := b.start(sandbox, b.config("trap '' TERM; sleep 600"))
	if err := b.Runtime.StopSandbox(b.ctx, sandbox); err != nil {
		t.Fatalf("StopSandbox: %v", err)
	}
	b.await(id, runtime.Exited)
	list, err := b.Runtime.List(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		if s.ID == sandbox && s.State != runtime.Exited {
			t.Errorf("sandbox is %s, want exited", s.State)
		}
	}
}

func testEnv(t *testing.T, b *bench) {
	cfg := b.config("echo $GREETING > /out/env")
	cfg.Env = []runtime.EnvVar{{Name: "PATH", Value: "/bin:/usr/bin"}, {Name: "GREETING", Value: "hello"}}
	dir := t.TempDir()
	cfg.Mounts = []runtime.Mount{{HostPath: dir, ContainerPath: "/out"}}
	b.await(b.start(b.sandbox(), cfg), runtime.Exited)
	data, err := os.ReadFile(filepath.Join(dir, "env"))
	if err != nil || string(data) != "hello\n" {
		t.Errorf("wrote %q, %v", data, err)
	}
}

func testMount(t *testing.T, b *bench) {
	dir := t.TempDir()
	cfg := b.config("echo x > /ro/f")
	cfg.Mounts = []runtime.Mount{{HostPath: dir, ContainerPath: "/ro", ReadOnly: true}}
	c := b.await(b.start(b.sandbox(), cfg), runtime.Exited)
	if c.ExitCode == 0 {
		t.Errorf("a write to a read-only mount succeeded")
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("a read-only mount was written to")
	}
}

func testImageMount(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	cfg := b.config("echo x > /image/f")
	cfg.Mounts = []runtime.Mount{{Image: b.Image, ContainerPath: "/image", ReadOnly: true}}
	id := b.start(sandbox, cfg)
	c := b.await(id, runtime.Exited)
	if c.ExitCode == 0 {
		t.Errorf("a write to an image succeeded")
	}
	if len(c.MountedImages) != 1 || c.MountedImages[0] != b.Image {
		t.Errorf("mounted images %q, want %q", c.MountedImages, b.Image)
	}
	cfg = b.config("true")
	cfg.Mounts = []runtime.Mount{{Image: b.Image, ContainerPath: "/image"}}
	if _, err := b.Runtime.CreateContainer(b.ctx, sandbox, cfg); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("CreateContainer with a writable image: %v", err)
	}
}

func testExec(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("sleep 600"))
	var out, errs bytes.Buffer
	code, err := b.Runtime.Exec(b.ctx, id, runtime.ExecConfig{
		Args: []string{"/bin/sh", "-c", "cat; echo bad >&2; exit 3"},
		IO:   runtime.IO{Stdin: strings.NewReader("good\n"), Stdout: &out, Stderr: &errs},
	})
	if err != nil || code != 3 {
		t.Fatalf("Exec = %d, %v; want 3", code, err)
	}
	if out.String() != "good\n" || errs.String() != "bad\n" {
		t.Errorf("stdout %q, stderr %q", out.String(), errs.String())
	}
}

func testExecContext(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("sleep 600"))
	ctx, cancel := context.WithTimeout(b.ctx, 300*time.Millisecond)
	defer cancel()
	start := time.Now()
	if _, err := b.Runtime.Exec(ctx, id, runtime.ExecConfig{Args: []string{"/bin/sh", "-c", "sleep 60"}}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Exec: %v, want the context's error", err)
	}
	if took := time.Since(start); took > 20*time.Second {
		t.Errorf("exec took %v", took)
	}
}

func testExecStopped(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("exit 0"))
	b.await(id, runtime.Exited)
	if _, err := b.Runtime.Exec(b.ctx, id, runtime.ExecConfig{Args: []string{"true"}}); !errors.Is(err, runtime.ErrNotRunning) {
		t.Errorf("Exec: %v, want ErrNotRunning", err)
	}
	if _, err := b.Runtime.Exec(b.ctx, "absent", runtime.ExecConfig{Args: []string{"true"}}); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("Exec: %v, want ErrNotFound", err)
	}
}

func testAttach(t *testing.T, b *bench) {
	cfg := b.config("cat")
	cfg.Stdin, cfg.StdinOnce = true, true
	id := b.start(b.sandbox(), cfg)
	b.await(id, runtime.Running)
	in, feed := io.Pipe()
	got, out := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- b.Runtime.Attach(b.ctx, id, runtime.IO{Stdin: in, Stdout: out})
		out.Close()
	}()
	go io.WriteString(feed, "ping\n")
	line := make([]byte, 5)
	if _, err := io.ReadFull(got, line); err != nil || string(line) != "ping\n" {
		t.Fatalf("read %q, %v", line, err)
	}
	feed.Close()
	go io.Copy(io.Discard, got)
	select {
	case err := <-done:
		if err != nil {
			t.Errorf("Attach: %v", err)
		}
	case <-time.After(20 * time.Second):
		t.Errorf("attach did not end with its container")
	}
	b.await(id, runtime.Exited)
}

func testNoExecutable(t *testing.T, b *bench) {
	cfg := b.config("")
	cfg.Args = []string{"/no-such-executable"}
	id := b.create(b.sandbox(), cfg)
	if err := b.Runtime.StartContainer(b.ctx, id); !errors.Is(err, runtime.ErrStart) {
		t.Errorf("StartContainer: %v, want ErrStart", err)
	}
	if c := b.await(id, runtime.Exited); c.ExitCode != 127 && c.ExitCode != 128 {
		t.Errorf("exit code %d", c.ExitCode)
	}
}

func testEvents(t *testing.T, b *bench) {
	ctx, cancel := context.WithCancel(b.ctx)
	events, err := b.Runtime.Events(ctx)
	if err != nil {
		t.Fatal(err)
	}
	id := b.start(b.sandbox(), b.config("exit 0"))
	seen := map[runtime.EventKind]bool{}
	timeout := time.After(20 * time.Second)
	for !seen[runtime.ContainerExited] {
		select {
		case e, ok := <-events:
			if !ok {
				t.Fatal("the channel was closed early")
			}
			if e.ID == id {
				if e.Pod != b.pod {
					t.Errorf("event of pod %+v", e.Pod)
				}
				seen[e.Kind] = true
			}
		case <-timeout:
			t.Fatalf("saw only %v", seen)
		}
	}
	cancel()
	for {
		select {
		case _, ok := <-events:
			if !ok {
				return
			}
		case <-timeout:
			t.Fatal("the channel is not closed with its context")
		}
	}
}

func testStats(t *testing.T, b *bench) {
	id := b.start(b.sandbox(), b.config("sleep 600"))
	b.await(id, runtime.Running)
	stats, err := b.Runtime.Stats(b.ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stats {
		if s.ID == id {
			if s.Pod != b.pod || s.Name != "app" || s.Time.IsZero() || s.MemoryBytes == 0 {
				t.Errorf("stats %+v", s)
			}
			return
		}
	}
	t.Errorf("no stats for %s in %+v", id, stats)
}

func testWritten(t *testing.T, b *bench) {
	sandbox := b.sandbox()
	idle, writer := b.start(sandbox, b.config("sleep 600")), b.start(sandbox, b.config("echo some text that is kept > /written; exit 0"))
	b.await(writer, runtime.Exited)
	wrote, err := b.Runtime.Written(b.ctx, []string{idle, writer, "absent"})
	if err != nil {
		t.Fatal(err)
	}
	if len(wrote) != 2 || wrote[writer].Bytes <= wrote[idle].Bytes || wrote[writer].Files != wrote[idle].Files+1 {
		t.Errorf("written: %+v, want a file and its bytes more for %s than for %s, and nothing of others", wrote, writer, idle)
	}
}

func testPortForwardUnknown(t *testing.T, b *bench) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	if err := b.Runtime.PortForward(b.ctx, "absent", 80, far); !errors.Is(err, runtime.ErrNotFound) {
		t.Errorf("PortForward: %v, want ErrNotFound", err)
	}
}

func testRestart(t *testing.T, b *bench) {
	if b.Restart == nil {
		t.Log("this runtime has no state beyond its process")
		return
	}
	sandbox := b.sandbox()
	id := b.start(sandbox, b.config("sleep 600"))
	before := b.await(id, runtime.Running)
	b.Runtime = b.Restart(t)
	after := b.await(id, runtime.Running)
	if before.PID != after.PID || !before.StartedAt.Equal(after.StartedAt) {
		t.Errorf("before %+v, after %+v", before, after)
	}
	if err := b.Runtime.StopContainer(b.ctx, id, 0); err != nil {
		t.Fatalf("StopContainer: %v", err)
	}
	b.await(id, runtime.Exited)
}
