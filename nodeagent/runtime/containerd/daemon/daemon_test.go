package daemon

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

func TestStartTellsWhyItFails(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		if _, err := Start(t.Context(), Config{}); err == nil || !strings.Contains(err.Error(), "need root") {
			t.Errorf("Start without root: %v", err)
		}
		return
	}
	program := func(script string) string {
		path := filepath.Join(t.TempDir(), "containerd")
		if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
		return path
	}
	short := func() string {
		dir, err := os.MkdirTemp("/tmp", "b")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	tests := []struct {
		name, program, state, want string
	}{
		{"a program that ends at once", program("echo first >&2; echo the reason >&2; exit 1"), short(), "the reason"},
		{"no program", "/no/such/containerd", short(), "no such file"},
		{"a state folder that is too long for sockets", program("exit 1"), filepath.Join(short(), strings.Repeat("x", 50)), "choose a shorter one"},
	}
	for _, tt := range tests {
		start := time.Now()
		_, err := Start(t.Context(), Config{
			Root: t.TempDir(), State: tt.state, Containerd: tt.program, Log: slog.New(slog.DiscardHandler),
		})
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %q", tt.name, err, tt.want)
		}
		if took := time.Since(start); took > 10*time.Second {
			t.Errorf("%s: it took %v to say so", tt.name, took)
		}
	}
}

func TestSettingsQuotePaths(t *testing.T) {
	t.Parallel()
	got := settings(Config{Root: `/a "b"`, State: "/s"})
	for _, want := range []string{`root = "/a \"b\"/root"`, `address = "/s/containerd.sock"`, `socket_dir = "/s/s"`} {
		if !strings.Contains(got, want) {
			t.Errorf("settings lack %s:\n%s", want, got)
		}
	}
}
