package main

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
)

func TestMain(m *testing.M) {
	if os.Getenv(asBerth) != "" {
		main()
		os.Exit(0)
	}
	engine.ChildProgram = enginetest.Compiler()
	os.Exit(m.Run())
}

// asBerth makes the test's binary the command itself.
const asBerth = "BERTH_TEST_MAIN"

// berth runs a command as its user would and returns what it printed.
func berth(t *testing.T, args ...string) (string, error) {
	t.Helper()
	var out bytes.Buffer
	root := newRoot()
	root.SetOut(&out)
	root.SetErr(&out)
	root.SetArgs(args)
	err := root.ExecuteContext(t.Context())
	return out.String(), err
}

// mustBerth runs a command that has to succeed.
func mustBerth(t *testing.T, args ...string) string {
	t.Helper()
	out, err := berth(t, args...)
	if err != nil {
		t.Fatalf("berth %q: %v\n%s", args, err, out)
	}
	return out
}

// runHost runs a host until the test ends and returns its kubeconfig.
func runHost(t *testing.T) (kubeconfig string) {
	t.Helper()
	return runHostOn(t, t.TempDir())
}

func runHostOn(t *testing.T, dir string) (kubeconfig string) {
	t.Helper()
	kubeconfig, _ = startHost(t, dir)
	return kubeconfig
}

// startHost runs a host until stop, or the test's end.
func startHost(t *testing.T, dir string, changes ...func(*host.Config)) (kubeconfig string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ready, ended := make(chan host.Serving, 1), make(chan error, 1)
	c := host.Config{DataDir: dir, Compiled: enginetest.Cache(), Listen: "127.0.0.1:0", Log: slog.New(slog.DiscardHandler)}
	c.NodeGrace = time.Hour // nobody renews the tests' nodes, however slow the machine is
	for _, change := range changes {
		change(&c)
	}
	go func() { ended <- host.Run(ctx, c, func(s host.Serving) { ready <- s }) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("host ended: %v", err)
		}
	})
	t.Cleanup(stop)
	select {
	case s := <-ready:
		return s.Kubeconfig, stop
	case err := <-ended:
		ended <- nil
		t.Fatalf("host ended: %v", err)
		return "", stop
	}
}
