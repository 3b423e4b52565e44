package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"time"
)

// node is a machine made of network namespaces: its own, that of a pod on it, and
// that of the pods of another node.
type node struct {
	own, pod, far *netSpace
	// addresses are those at which a far pod was asked, each with how often.
	mu        sync.Mutex
	addresses map[string]int
	listener  net.Listener
	done      sync.WaitGroup
}

// farPort is where all pods of the other node answer, farAddress the address of one.
const farPort = proxiedPort

func farAddress(i int) string { return fmt.Sprintf("10.129.0.%d", 128+i) }

// newNode makes one. The API, which listens on this machine's loopback device, is
// reached from there, too.
func newNode(ctx context.Context, api string) (n *node, err error) {
	n = &node{addresses: map[string]int{}}
	defer func() {
		if err != nil {
			n.close()
		}
	}()
	for _, s := range []**netSpace{&n.own, &n.pod, &n.far} {
		if *s, err = newNetSpace(); err != nil {
			return n, err
		}
	}
	for _, step := range []struct {
		in   *netSpace
		line string
	}{
		{n.own, "link add " + podDevice + " type veth peer name eth0 netns " + n.pod.path()},
		{n.own, "link add far0 type veth peer name eth0 netns " + n.far.path()},
		{n.own, "addr add " + nodeAddress + "/32 dev lo"},
		{n.own, "addr add 10.128.0.1/24 dev " + podDevice},
		{n.own, "addr add 10.129.0.1/24 dev far0"},
		{n.own, "link set " + podDevice + " up"},
		{n.own, "link set far0 up"},
		{n.pod, "addr add 10.128.0.2/24 dev eth0"},
		{n.pod, "link set eth0 up"},
		{n.pod, "route add default via 10.128.0.1"},
		{n.far, "addr add 10.129.0.2/24 dev eth0"},
		{n.far, "link set eth0 up"},
		{n.far, "route add default via 10.129.0.1"},
		{n.far, "route add local 10.129.0.128/25 dev lo"}, // all its pods
	} {
		if err := step.in.ip(ctx, step.line); err != nil {
			return n, err
		}
	}
	// Who is refused is told each time: by default the kernel tells it once a second.
	for name, value := range map[string]string{"ip_forward": "1", "icmp_ratemask": "0"} {
		if err := n.own.do(func() error { return os.WriteFile("/proc/sys/net/ipv4/"+name, []byte(value), 0o644) }); err != nil {
			return n, err
		}
	}
	if err := n.own.relay(api); err != nil {
		return n, err
	}
	return n, n.answer()
}

// answer has the other node's pods accept connections.
func (n *node) answer() error {
	err := n.far.do(func() (err error) {
		n.listener, err = net.Listen("tcp", fmt.Sprint(":", farPort))
		return err
	})
	if err != nil {
		return err
	}
	n.done.Go(func() {
		for {
			c, err := n.listener.Accept()
			if err != nil {
				return
			}
			host, _, _ := net.SplitHostPort(c.LocalAddr().String())
			n.mu.Lock()
			n.addresses[host]++
			n.mu.Unlock()
			_ = c.Close()
		}
	})
	return nil
}

// asked is how often a pod of the other node was.
func (n *node) asked(address string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.addresses[address]
}

func (n *node) close() {
	if n.listener != nil {
		_ = n.listener.Close()
		n.done.Wait()
	}
	for _, s := range []*netSpace{n.own, n.pod, n.far} {
		if s != nil {
			s.close()
		}
	}
}

// ip runs iproute2's ip in the namespace.
func (s *netSpace) ip(ctx context.Context, line string) error {
	return s.do(func() error {
		out, err := exec.CommandContext(ctx, "ip", strings.Fields(line)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", line, err, strings.TrimSpace(string(out)))
		}
		return nil
	})
}

// connectWithin bounds one connection.
const connectWithin = 10 * time.Second

// connect makes a connection on this thread, and resets it, so that thousands a
// second leave no ports that wait.
func connect(address string) error {
	c, err := net.DialTimeout("tcp", address, connectWithin)
	if err != nil {
		return err
	}
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return errors.Join(fmt.Errorf("a connection of %T", c), c.Close())
	}
	return errors.Join(tcp.SetLinger(0), tcp.Close())
}
