// Package guestkernel runs tests on a Linux that is a process of this machine
// (user-mode Linux), with this machine's files as its own, read only: a kernel on
// which cgroup v2 has the controllers of CPU, memory and process ids, whatever
// this machine's has. Processes there take several times as long.
package guestkernel

import (
	"bytes"
	"context"
	_ "embed"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Controllers is the variable by which tests in a guest are told what its cgroup
// v2 tree has.
const Controllers = "BERTH_GUEST_CONTROLLERS"

// script is the guest's first process. Power goes off at its end.
const script = `#!/bin/sh
export PATH='%[1]s' HOME='%[2]s' CI='%[3]s' TMPDIR=/run/tmp BERTH_GUEST_CONTROLLERS='cpu memory pids'
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t cgroup2 cgroup2 /sys/fs/cgroup
mount -t tmpfs run /run
mkdir /run/tmp
ip link set lo up
for m in $(find /usr/lib/uml/modules/$(uname -r) -name overlay.ko); do busybox insmod $m; done
cd '%[4]s'
'%[5]s' -test.run '%[6]s' -test.v -test.timeout %[7]s
echo "%[8]s$?"
echo o > /proc/sysrq-trigger
sleep 60
`

// ptrace is loaded into the guest's kernel before the C library.
//
//go:embed preload/ptrace.c
var ptrace string

const ended = "the guest's tests ended with "

// Run runs tests of the calling test's own package in a guest, without the race
// detector: what that keeps lies beyond the addresses that a guest's programs have.
func Run(t *testing.T, tests string, within time.Duration) {
	t.Helper()
	linux, err := exec.LookPath("linux.uml")
	if err != nil {
		t.Fatalf("%v: install Debian's package user-mode-linux", err)
	}
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	self, first := filepath.Join(dir, "guest.test"), filepath.Join(dir, "init")
	if out, err := exec.CommandContext(t.Context(), "go", "test", "-c", "-race=false", "-o", self, ".").CombinedOutput(); err != nil {
		t.Fatalf("build the tests of %s: %v\n%s", here, err, out)
	}
	preload := filepath.Join(dir, "ptrace.so")
	gcc := exec.CommandContext(t.Context(), "gcc", "-shared", "-fPIC", "-O2", "-x", "c", "-o", preload, "-")
	gcc.Stdin = strings.NewReader(ptrace)
	if out, err := gcc.CombinedOutput(); err != nil {
		t.Fatalf("build ptrace.c: %v\n%s", err, out)
	}
	text := fmt.Sprintf(script, os.Getenv("PATH"), os.Getenv("HOME"), os.Getenv("CI"), here, self, tests, within, ended)
	if err := os.WriteFile(first, []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), within+time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, linux, "mem=1G", "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro",
		"con=null", "con0=null,fd:1", "uml_dir="+dir, "init="+first)
	cmd.Env = append(os.Environ(), "TMPDIR="+dir, "LD_PRELOAD="+preload)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 10 * time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	err = cmd.Run()
	if _, code, ok := strings.Cut(out.String(), ended); !ok || !strings.HasPrefix(code, "0") {
		t.Errorf("in a guest kernel: %v\n%s", err, out.String())
	}
	t.Logf("the guest's tests:\n%s", summary(out.String()))
}

// summary are the lines that say what was tested, and how it went.
func summary(out string) string {
	var b strings.Builder
	for line := range strings.Lines(out) {
		if strings.HasPrefix(strings.TrimSpace(line), "--- ") {
			b.WriteString(line)
		}
	}
	return b.String()
}
