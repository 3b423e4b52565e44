package nft

import (
	"errors"
	"fmt"
	"io"
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
func needKernel(t testing.TB, programs ...string) {
	t.Helper()
	var missing string
	if os.Geteuid() != 0 {
		missing = "rules of the kernel need root"
	}
	for _, p := range programs {
		if _, err := exec.LookPath(p); err != nil {
			missing = err.Error()
		}
	}
	if missing == "" {
		return
	}
	if os.Getenv("CI") != "" {
		t.Fatal(missing)
	}
	t.Skip(missing)
}

// machine is a network namespace that plays a machine, or a pod of it.
type machine string

func newNetns(t testing.TB) machine {
	t.Helper()
	needKernel(t, "ip")
	path := filepath.Join(t.TempDir(), "machine")
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
	n := machine(path)
	n.ip(t, "link set lo up")
	return n
}

// within runs f on a thread in the namespace.
func (n machine) within(f func()) {
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

func (n machine) run(t testing.TB, line string) string {
	t.Helper()
	var out []byte
	var err error
	words := strings.Fields(line)
	n.within(func() { out, err = exec.Command(words[0], words[1:]...).CombinedOutput() })
	if err != nil {
		t.Fatalf("%s: %v: %s", line, err, out)
	}
	return string(out)
}

func (n machine) ip(t testing.TB, line string) {
	t.Helper()
	n.run(t, "ip "+line)
}

func (n machine) sysctl(t testing.TB, name, value string) {
	t.Helper()
	n.within(func() {
		if err := os.WriteFile("/proc/sys/"+name, []byte(value), 0o644); err != nil {
			t.Error(err)
		}
	})
}

// link connects two namespaces by a pair of interfaces.
func link(t testing.TB, a machine, nameA string, b machine, nameB string) {
	t.Helper()
	fd, err := os.Open(string(b))
	if err != nil {
		t.Fatal(err)
	}
	defer fd.Close()
	a.ip(t, fmt.Sprintf("link add name %s type veth peer name %s netns /proc/%d/fd/%d", nameA, nameB, os.Getpid(), fd.Fd()))
	a.ip(t, "link set "+nameA+" up")
	b.ip(t, "link set "+nameB+" up")
}

// node is a machine with a bridge of pods, a client outside, and rules.
type node struct {
	machine
	*Kernel
	outside machine
	pods    []machine
}

const (
	nodeIP    = "192.0.2.1"
	outsideIP = "192.0.2.2"
)

func podIP(i int) netip.Addr  { return netip.AddrFrom4([4]byte{10, 99, 1, byte(10 + i)}) }
func podIP6(i int) netip.Addr { return netip.MustParseAddr(fmt.Sprintf("fd00:99::%d", 10+i)) }

var podRanges = []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16"), netip.MustParsePrefix("fd00:99::/64")}

var nodeRanges = []netip.Prefix{netip.MustParsePrefix("10.99.1.0/24"), netip.MustParsePrefix("fd00:99::/64")}

// newNode makes a machine with pods, which are served by answers.
func newNode(t testing.TB, pods int) *node {
	t.Helper()
	n := &node{machine: newNetns(t), outside: newNetns(t)}
	for _, line := range []string{
		"link add berth0 type bridge", "addr add 10.99.1.1/24 dev berth0", "-6 addr add fd00:99::1/64 dev berth0 nodad", "link set berth0 up",
	} {
		n.ip(t, line)
	}
	for name, value := range map[string]string{
		"net/ipv4/ip_forward": "1", "net/ipv6/conf/all/forwarding": "1", "net/ipv4/conf/berth0/route_localnet": "1",
	} {
		n.sysctl(t, name, value)
	}
	link(t, n.machine, "up0", n.outside, "eth0")
	n.ip(t, "addr add "+nodeIP+"/24 dev up0")
	n.ip(t, "-6 addr add 2001:db8::1/64 dev up0 nodad")
	n.ip(t, "route add default via "+outsideIP)
	n.ip(t, "-6 route add default via 2001:db8::2")
	n.outside.ip(t, "addr add "+outsideIP+"/24 dev eth0")
	n.outside.ip(t, "-6 addr add 2001:db8::2/64 dev eth0 nodad")
	n.outside.ip(t, "route add default via "+nodeIP)
	n.outside.ip(t, "-6 route add default via 2001:db8::1")
	for i := range pods {
		p := newNetns(t)
		port := fmt.Sprintf("v%d", i)
		link(t, n.machine, port, p, "eth0")
		n.ip(t, "link set "+port+" master berth0")
		n.ip(t, "link set "+port+" type bridge_slave hairpin on")
		p.ip(t, fmt.Sprintf("addr add %s/24 dev eth0", podIP(i)))
		p.ip(t, fmt.Sprintf("-6 addr add %s/64 dev eth0 nodad", podIP6(i)))
		for _, route := range []string{"default via 10.99.1.1", "10.99.1.128/25 via 10.99.1.1", "10.99.1.0/25 via 10.99.1.1"} {
			p.ip(t, "route add "+route)
		}
		for _, route := range []string{"default via fd00:99::1", "fd00:99:0:0:8000::/65 via fd00:99::1", "fd00:99::/65 via fd00:99::1"} {
			p.ip(t, "-6 route add "+route)
		}
		answer(t, p)
		n.pods = append(n.pods, p)
	}
	n.open(t)
	return n
}

// open lays the rules, as a new process would.
func (n *node) open(t testing.TB) {
	t.Helper()
	var err error
	n.within(func() {
		n.Kernel, err = Open(Config{Bridge: "berth0", PodRanges: nodeRanges, ClusterRanges: podRanges, Log: slog.New(slog.NewTextHandler(t.Output(), nil))})
	})
	if err != nil {
		t.Fatal(err)
	}
	k := n.Kernel
	t.Cleanup(func() { k.Close() })
}

// answer tells whoever connects, by TCP or UDP to port 80, the server's address
// and the client's.
func answer(t testing.TB, n machine) {
	t.Helper()
	var l net.Listener
	var p *net.UDPConn
	var err, err2 error
	n.within(func() {
		l, err = net.Listen("tcp", ":80")
		p, err2 = net.ListenUDP("udp4", &net.UDPAddr{Port: 80})
	})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close(); p.Close() })
	host := func(a net.Addr) string { h, _, _ := net.SplitHostPort(a.String()); return h }
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			fmt.Fprint(c, host(c.LocalAddr()), " ", host(c.RemoteAddr()))
			c.Close()
		}
	}()
	go func() {
		b := make([]byte, 100)
		for {
			_, from, err := p.ReadFromUDP(b)
			if err != nil {
				return
			}
			p.WriteToUDP([]byte(string(n)), from)
		}
	}()
}

// ask connects from a namespace; it gives who answered, and whom it saw.
func (n machine) ask(to string) (server, client string, err error) {
	n.within(func() {
		var c net.Conn
		if c, err = net.DialTimeout("tcp", to, 3*time.Second); err != nil {
			return
		}
		defer c.Close()
		var text []byte
		if text, err = io.ReadAll(c); err == nil {
			server, client, _ = strings.Cut(string(text), " ")
		}
	})
	return server, client, err
}
