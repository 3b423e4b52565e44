// Package netnstest gives tests network namespaces, which play machines and pods.
package netnstest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// inside marks the process whose namespaces are its own.
const inside = "BERTH_TEST_INSIDE"

// Main is for TestMain: it runs the tests in network and mount namespaces of their
// own, with a loopback that is up, so that the machine's interfaces, routes and
// rules stay as they are. Without root they run where they are. It exits.
func Main(m *testing.M) {
	if os.Geteuid() != 0 {
		os.Exit(m.Run())
	}
	if os.Getenv(inside) != "" {
		if out, err := exec.Command("ip", "link", "set", "lo", "up").CombinedOutput(); err != nil && !errors.Is(err, exec.ErrNotFound) {
			fmt.Fprintf(os.Stderr, "ip link set lo up: %v: %s\n", err, out)
			os.Exit(1)
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS}
	if err := cmd.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "in namespaces:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// Need skips a test where it lacks root or a program; in CI it fails there.
func Need(t testing.TB, programs ...string) {
	t.Helper()
	var err error
	if os.Geteuid() != 0 {
		err = errors.New("network namespaces need root")
	}
	for _, p := range programs {
		if err == nil {
			_, err = exec.LookPath(p)
		}
	}
	switch {
	case err == nil:
	case os.Getenv("CI") != "":
		t.Fatal(err)
	default:
		t.Skip(err)
	}
}

// NS is a network namespace, by a file that holds it.
type NS string

// New makes one with a loopback that is up. It goes with the test.
func New(t testing.TB) NS {
	t.Helper()
	Need(t, "ip")
	path := filepath.Join(t.TempDir(), "ns")
	if err := os.WriteFile(path, nil, 0o444); err != nil {
		t.Fatal(err)
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in its namespace
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			done <- err
			return
		}
		done <- unix.Mount(fmt.Sprintf("/proc/self/task/%d/ns/net", unix.Gettid()), path, "none", unix.MS_BIND, "")
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(path, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	n := NS(path)
	n.Run(t, "ip link set lo up")
	return n
}

// Within runs f on a thread in the namespace; f must start no goroutines that
// touch the network. Sockets that it opens stay in the namespace.
func (n NS) Within(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // the thread ends with the goroutine
		fd, err := unix.Open(string(n), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			panic(err)
		}
		defer unix.Close(fd)
		if err := unix.Setns(fd, unix.CLONE_NEWNET); err != nil {
			panic(err)
		}
		f()
	}()
	<-done
}

// Run runs commands there, of words that blanks part, and gives what they print.
func (n NS) Run(t testing.TB, lines ...string) string {
	t.Helper()
	var all strings.Builder
	for _, line := range lines {
		words := strings.Fields(line)
		var out []byte
		var err error
		n.Within(func() { out, err = exec.Command(words[0], words[1:]...).CombinedOutput() })
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
		all.Write(out)
	}
	return all.String()
}

// Sysctl sets what /proc/sys has by a name.
func (n NS) Sysctl(t testing.TB, name, value string) {
	t.Helper()
	var err error
	n.Within(func() { err = os.WriteFile("/proc/sys/"+name, []byte(value), 0o644) })
	if err != nil {
		t.Error(err)
	}
}

// Link connects two namespaces by a pair of interfaces, which are up.
func Link(t testing.TB, a NS, nameA string, b NS, nameB string) {
	t.Helper()
	a.Run(t, "ip link add name "+nameA+" type veth peer name "+b.give(t, nameB), "ip link set "+nameA+" up")
	b.Run(t, "ip link set "+nameB+" up")
}

// Uplink connects a namespace with that of the tests.
func Uplink(t testing.TB, here string, n NS, there string) {
	t.Helper()
	out, err := exec.Command("ip", strings.Fields("link add name "+here+" type veth peer name "+n.give(t, there))...).CombinedOutput()
	if err != nil {
		t.Fatalf("connect %s: %v: %s", here, err, out)
	}
	n.Run(t, "ip link set "+there+" up")
}

// give is how ip is told to make an interface in the namespace.
func (n NS) give(t testing.TB, name string) string {
	fd, err := os.Open(string(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { fd.Close() })
	return fmt.Sprintf("%s netns /proc/%d/fd/%d", name, os.Getpid(), fd.Fd())
}
