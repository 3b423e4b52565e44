package isolation

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/nft"
)

// TestMain runs the tests in network and mount namespaces of their own.
func TestMain(m *testing.M) {
	const inside = "BERTH_TEST_INSIDE"
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
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
}

// needKernel skips where rules can not be laid; in CI they must.
func needKernel(t testing.TB) {
	t.Helper()
	_, err := exec.LookPath("ip")
	if os.Geteuid() != 0 {
		err = errors.New("rules of the kernel need root")
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
}

// netns is a network namespace that plays a machine, or a pod of it.
type netns string

func newNetns(t testing.TB) netns {
	t.Helper()
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
	n := netns(path)
	n.run(t, "ip link set lo up")
	return n
}

// within runs f on a thread in the namespace.
func (n netns) within(f func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
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

func (n netns) run(t testing.TB, lines ...string) {
	t.Helper()
	for _, line := range lines {
		var out []byte
		var err error
		words := strings.Fields(line)
		n.within(func() { out, err = exec.Command(words[0], words[1:]...).CombinedOutput() })
		if err != nil {
			t.Fatalf("%s: %v: %s", line, err, out)
		}
	}
}

// bed is a machine with pods on a bridge, and rules.
type bed struct {
	netns
	kernel *nft.Kernel
	pods   []netns
	heard  []chan string // datagrams, by the pod that got them
}

func address(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, 99, 1, byte(10 + i)}) }
func address6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:99::%x", 10+i)) }

var ranges = []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParsePrefix("fd00:99::/64")}

func newBed(t testing.TB, pods int) *bed {
	t.Helper()
	needKernel(t)
	b := &bed{netns: newNetns(t)}
	b.run(t, "ip link add berth0 type bridge", "ip addr add 10.99.1.1/24 dev berth0", "ip -6 addr add fd00:99::1/64 dev berth0 nodad", "ip link set berth0 up")
	b.within(func() {
		for _, name := range []string{"ipv4/ip_forward", "ipv6/conf/all/forwarding"} {
			if err := os.WriteFile("/proc/sys/net/"+name, []byte("1"), 0o644); err != nil {
				t.Error(err)
			}
		}
		var err error
		if b.kernel, err = nft.Open(nft.Config{Bridge: "berth0", PodRanges: ranges, ClusterRanges: ranges, Log: slog.New(slog.NewTextHandler(t.Output(), nil))}); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		t.FailNow()
	}
	t.Cleanup(func() { b.kernel.Close() })
	for i := range pods {
		b.addPod(t, i)
	}
	return b
}

func (b *bed) addPod(t testing.TB, i int) {
	t.Helper()
	p := newNetns(t)
	fd, err := os.Open(string(p))
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	b.run(t, fmt.Sprintf("ip link add name v%d type veth peer name eth0 netns /proc/%d/fd/%d", i, os.Getpid(), fd.Fd()),
		fmt.Sprintf("ip link set v%d master berth0 up", i), fmt.Sprintf("ip link set v%d type bridge_slave hairpin on", i))
	p.run(t, "ip link set eth0 up", fmt.Sprintf("ip addr add %s/32 dev eth0", address(i)), fmt.Sprintf("ip -6 addr add %s/128 dev eth0 nodad", address6(i)),
		"ip route add 10.99.1.1 dev eth0", "ip route add default via 10.99.1.1", "ip -6 route add fd00:99::1 dev eth0", "ip -6 route add default via fd00:99::1")
	b.pods, b.heard = append(b.pods, p), append(b.heard, make(chan string, 1000))
	for _, port := range []string{":80", ":81"} {
		b.listen(t, i, port)
	}
}

// listen takes connections, and hands on what datagrams say.
func (b *bed) listen(t testing.TB, i int, port string) {
	t.Helper()
	var l net.Listener
	var u net.PacketConn
	var err, err2 error
	b.pods[i].within(func() {
		l, err = net.Listen("tcp", port)
		u, err2 = net.ListenPacket("udp", port)
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); u.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	go func() {
		buffer := make([]byte, 100)
		for {
			n, _, err := u.ReadFrom(buffer)
			if err != nil {
				return
			}
			b.heard[i] <- string(buffer[:n])
		}
	}()
}

// passes tells whether pod from reaches pod to. Nothing is timed: either it
// arrives, or the kernel counts it as denied.
func (b *bed) passes(t testing.TB, from, to int, at netip.AddrPort, protocol forward.Protocol) bool {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	before := b.denied(t)
	arrived := make(chan error, 1)
	if protocol == forward.TCP {
		go b.pods[from].within(func() {
			c, err := new(net.Dialer).DialContext(ctx, "tcp", at.String())
			if err == nil {
				c.Close()
			}
			arrived <- err
		})
	} else {
		b.pods[from].within(func() {
			c, err := net.Dial("udp", at.String())
			if err == nil {
				_, err = fmt.Fprintf(c, "%d to %s", from, at)
				c.Close()
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case err := <-arrived:
			if err != nil {
				t.Fatalf("%d to %s: %v", from, at, err)
			}
			return true
		case text := <-b.heard[to]:
			if text != fmt.Sprintf("%d to %s", from, at) {
				t.Fatalf("%d to %s: heard %q", from, at, text)
			}
			return true
		case <-tick.C:
			if b.denied(t) != before {
				return false
			}
		case <-ctx.Done():
			t.Fatalf("%d to %s: neither arrived nor denied", from, at)
		}
	}
}

func (b *bed) denied(t testing.TB) uint64 {
	in, out, err := b.kernel.Denied()
	if err != nil {
		t.Fatal(err)
	}
	return in + out
}
