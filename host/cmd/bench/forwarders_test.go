package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
)

// TestMain is the node agent's process, too, and that of a table.
func TestMain(m *testing.M) {
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == networkProcess:
		err = networkAgent(context.Background(), os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == tableProcess:
		err = tableInTests(os.Args[2:])
	default:
		engine.ChildProgram = enginetest.Compiler()
		os.Exit(m.Run())
	}
	if err != nil && !errors.Is(err, context.Canceled) {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// TestConnectionsOutliveTheAgent: it is killed and comes back under 2,000 connections
// a second, of which none fails, and an endpoint that came meanwhile has them then.
// Pods of another node are reached when they are ready.
func TestConnectionsOutliveTheAgent(t *testing.T) {
	needNamespaces(t)
	err := onRig(t.Context(), func(r *rig) error {
		if err := errors.Join(r.proxied(t.Context(), 0, 50), r.keep(t.Context()), r.preparePods(t.Context())); err != nil {
			return err
		}
		all, err := r.forwarders()
		if err != nil {
			return err
		}
		f := all[0]
		if f.column != berthColumn {
			t.Errorf("the first is %s", f.column)
		}
		api, err := url.Parse(r.config.Host)
		if err != nil {
			return err
		}
		n, err := newNode(t.Context(), api.Host)
		if err != nil {
			return err
		}
		defer n.close()
		defer f.end()
		if err := f.serve(t.Context(), n); err != nil {
			return err
		}
		if took, err := r.firstPackets(t.Context(), n, f.column, 5); err != nil || len(took) != 5 || took.at(0) <= 0 {
			t.Errorf("pods that become ready are reached after %v, %v", took, err)
		}
		if used, err := f.idle(t.Context(), 100*time.Millisecond); err != nil || used < 0 || used > 200 {
			t.Errorf("the agent uses %v %% of a core, %v", used, err)
		}
		out, err := r.outlive(t.Context(), f, n, 1, 500*time.Millisecond)
		if err != nil {
			return err
		}
		if out.failed > 0 || out.made < 100 || out.slowest <= 0 || out.knows <= 0 || out.why != nil {
			t.Errorf("%d of %d connections failed (%v), the slowest took %v; the new endpoint was known after %v", out.failed, out.made, out.why, out.slowest, out.knows)
		}
		f.end()
		return nil
	}, func(c *host.Config) { c.Compiled = enginetest.Cache() })
	if err != nil {
		t.Fatal(err)
	}
}

func TestAForwarderThatEndsSaysWhy(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	n, err := newNode(t.Context(), "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	defer n.close()
	f := &forwarder{column: "the program", log: t.TempDir() + "/log", command: func() *exec.Cmd { return exec.Command("sh", "-c", "echo no such node; exit 3") }}
	defer f.end()
	if err := f.serve(t.Context(), n); err == nil || !strings.Contains(err.Error(), "the program ended: exit status 3: no such node") {
		t.Errorf("error %v, want what it said", err)
	}
	if n.asked(farAddress(0)) > 0 {
		t.Error("an endpoint was asked by nobody's rules")
	}
}

func TestProcessorTimeIsRead(t *testing.T) {
	t.Parallel()
	for stat, want := range map[string]time.Duration{
		"7 (a (b) c) S 1 7 7 0 -1 4194560 1 0 0 0 12 30 0 0 20 0 1 0 1 1": 420 * time.Millisecond,
		"7 (x) S 1": 0, "": 0,
	} {
		if got, err := processorTime(stat); got != want || (err == nil) != (want > 0) {
			t.Errorf("%q: %v, %v; want %v", stat, got, err, want)
		}
	}
}
