package walk_test

import (
	"bufio"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/miekg/dns"
	"golang.org/x/sys/unix"
	v1 "k8s.io/api/core/v1"
)

// machine is a node of its own: namespaces that a process holds, in which an
// agent runs. Its containers outlive the agent.
type machine struct {
	name, address string
	dir, server   string
	holder        *exec.Cmd
	agent         *exec.Cmd
	log           *logFile
	exited        chan struct{}
}

func (c *cluster) newMachine(t *testing.T, name, bridge, address string) *machine {
	t.Helper()
	m := &machine{name: name, address: address, dir: t.TempDir(), server: c.rest.Host}
	m.holder = exec.Command("sleep", "infinity")
	m.holder.SysProcAttr = &syscall.SysProcAttr{
		Unshareflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWUTS, Setpgid: true,
	}
	if err := m.holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		m.end(t)
		_ = m.holder.Process.Kill()
		_ = m.holder.Wait()
	})
	pid := strconv.Itoa(m.holder.Process.Pid)
	mustRun(t, "ip", "link", "add", "to-"+name, "type", "veth", "peer", "name", "eth0", "netns", pid)
	mustRun(t, "ip", "link", "set", "to-"+name, "master", bridge, "up")
	gateway := address[:strings.LastIndex(address, ".")] + ".1"
	for _, line := range []string{
		"mount -t tmpfs run /run", "hostname " + name, "ip link set lo up",
		"ip addr add " + address + "/24 dev eth0", "ip link set eth0 up", "ip route add default via " + gateway,
	} {
		m.must(t, strings.Fields(line)...)
	}
	return m
}

// inside is a command that runs in the machine.
func (m *machine) inside(args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"-t", strconv.Itoa(m.holder.Process.Pid), "-m", "-n", "-u", "--"}, args...)...)
}

func (m *machine) must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := m.inside(args...).CombinedOutput()
	if err != nil {
		t.Fatalf("on %s: %s: %v\n%s", m.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

func mustRun(t *testing.T, args ...string) {
	t.Helper()
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// join starts the agent and waits until the node is ready.
func (m *machine) join(t *testing.T, args ...string) {
	t.Helper()
	m.agent = m.inside(append([]string{binary, "agent", "--server", m.server, "--node-name", m.name, "--data-dir", m.dir,
		"--node-lease-duration", "2s", "--stop-pods"}, append(args, fullDisk...)...)...)
	m.log, m.exited = new(logFile), make(chan struct{})
	m.agent.Stderr = m.log
	m.agent.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := m.agent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := m.agent.Start(); err != nil {
		t.Fatal(err)
	}
	ready := make(chan struct{})
	go func() {
		defer close(m.exited)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if strings.HasPrefix(lines.Text(), "node "+m.name+" is ready") {
				close(ready)
			}
		}
		_ = m.agent.Wait()
	}()
	select {
	case <-ready:
	case <-m.exited:
		t.Fatalf("the agent of %s ended before it was ready:\n%s", m.name, m.log)
	case <-time.After(time.Minute):
		t.Fatalf("the agent of %s is not ready after a minute:\n%s", m.name, m.log)
	}
}

// kill ends the agent as a crash would. Its pods run on.
func (m *machine) kill() {
	_ = m.agent.Process.Kill()
	<-m.exited
}

// end stops the agent and its pods, for which a dead one comes back.
func (m *machine) end(t *testing.T) {
	if m.agent == nil {
		return
	}
	select {
	case <-m.exited:
		m.join(t)
	default:
	}
	_ = m.agent.Process.Signal(syscall.SIGINT)
	select {
	case <-m.exited:
	case <-time.After(90 * time.Second):
		t.Errorf("the agent of %s does not end on SIGINT", m.name)
		m.kill()
	}
	if code := m.agent.ProcessState.ExitCode(); code != 0 && !t.Failed() {
		t.Errorf("the agent of %s exits with %d", m.name, code)
	}
	if t.Failed() {
		t.Logf("what the agent of %s logged last:\n%s", m.name, m.log)
	}
}

// state is where the agent keeps sockets and network namespaces.
func (m *machine) state(t *testing.T) string {
	return strings.TrimSpace(m.must(t, "sh", "-c", "echo /run/berth/*"))
}

// netns is a pod's network on this machine.
func (m *machine) netns(t *testing.T, pod *v1.Pod) string {
	t.Helper()
	paths, err := filepath.Glob(fmt.Sprintf("/proc/%d/root%s/net/netns/%s-*", m.holder.Process.Pid, m.state(t), pod.UID))
	if err != nil || len(paths) != 1 {
		t.Fatalf("network namespaces of pod %s on %s: %q %v, want one", pod.Name, m.name, paths, err)
	}
	return paths[0]
}

// from does something inside a pod's network on this machine.
func (m *machine) from(t *testing.T, pod *v1.Pod, do func() error) {
	t.Helper()
	if err := fromWithin(m.netns(t, pod), do); err != nil {
		t.Fatalf("from pod %s on %s: %v", pod.Name, m.name, err)
	}
}

// asks sends a GET from inside a pod's network on this machine.
func (m *machine) asks(t *testing.T, from *v1.Pod, to netip.Addr) string {
	t.Helper()
	var body string
	m.from(t, from, func() (err error) {
		body, err = greeting(netip.AddrPortFrom(to, 8080).String())
		return err
	})
	return body
}

// fromWithin runs do in a network namespace, on a thread that ends with it.
func fromWithin(netns string, do func() error) error {
	done := make(chan error)
	go func() {
		runtime.LockOSThread()
		f, err := os.Open(netns)
		if err == nil {
			err = errors.Join(unix.Setns(int(f.Fd()), unix.CLONE_NEWNET), f.Close())
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

// webOn is the quickstart's pod, for one node.
func webOn(t *testing.T, name, node string) *v1.Pod {
	t.Helper()
	p := readPod(t, "examples/quickstart/pod.yaml")
	p.Name, p.Spec.NodeSelector = name, map[string]string{v1.LabelHostname: node}
	return p
}

func addressOf(p *v1.Pod) netip.Addr {
	a, _ := netip.ParseAddr(p.Status.PodIP)
	return a
}

// resolves asks the cluster's DNS for addresses, from inside a pod's network.
func (m *machine) resolves(t *testing.T, from *v1.Pod, name string) (all []netip.Addr) {
	t.Helper()
	m.from(t, from, func() (err error) {
		all, err = lookup(name)
		return err
	})
	return all
}

// lookup asks the cluster's DNS for the addresses of a name, once, on this thread.
func lookup(name string) (all []netip.Addr, err error) {
	answer, err := dns.Exchange(new(dns.Msg).SetQuestion(name, dns.TypeA), "10.96.0.10:53")
	if err != nil {
		return nil, err
	}
	for _, r := range answer.Answer {
		if a, ok := r.(*dns.A); ok {
			ip, _ := netip.AddrFromSlice(a.A)
			all = append(all, ip.Unmap())
		}
	}
	return all, nil
}
