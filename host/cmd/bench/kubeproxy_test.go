package main

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestServicesOfKubeProxyAreCounted(t *testing.T) {
	t.Parallel()
	const listed = `table ip kube-proxy {
	map service-ips {
		type ipv4_addr . inet_proto . inet_service : verdict
		comment "ClusterIP, ExternalIP and LoadBalancer IP traffic"
		elements = { 10.96.0.1 . tcp . 443 : goto service-2QRHZV4L-default/kubernetes/tcp/https,
			     10.96.1.0 . tcp . 8080 : goto service-AAAA-default/s0/tcp/,
			     10.96.1.1 . tcp . 8080 : goto service-BBBB-default/s1/tcp/ }
	}
}
`
	for text, want := range map[string]int{listed: 2, "": 0, "10.96.1.0 . udp . 8080 : drop": 0, "10.96.1.0 . tcp . 80801 : drop": 0} {
		if got := countProxied(text); got != want {
			t.Errorf("%d services in %q, want %d", got, text, want)
		}
	}
	if got := proxiedAddress(0) + " " + proxiedAddress(proxied); got != "10.96.1.0 10.96.118.48" {
		t.Errorf("addresses from and to %s", got)
	}
}

func needNamespaces(t *testing.T) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("namespaces are root's to make")
	}
	if _, err := exec.LookPath("nft"); err != nil {
		t.Skip(err)
	}
}

// standIn has a script be found as kube-proxy.
func standIn(t *testing.T, script string) *kubeProxy {
	t.Helper()
	needNamespaces(t)
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "kube-proxy"), []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+":"+os.Getenv("PATH"))
	space, err := newNetSpace()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(space.close)
	return &kubeProxy{space: space, log: filepath.Join(dir, "log")}
}

// rules writes a map of services as kube-proxy does, and stays.
const rules = `nft -f - <<END || exit 1
table ip kube-proxy {
	map service-ips { type ipv4_addr . inet_proto . inet_service : verdict; }
}
add element ip kube-proxy service-ips { 10.96.1.0 . tcp . 8080 : drop, 10.96.1.1 . tcp . 8080 : drop }
END
exec sleep 1000
`

func TestKubeProxyIsDoneWhenTheKernelHasAll(t *testing.T) {
	p := standIn(t, rules)
	took, err := p.run(t.Context(), 2)
	if err != nil || took <= 0 {
		t.Errorf("took %v, %v", took, err)
	}
	if p.has(t.Context(), proxiedAddress(2)) {
		t.Error("the kernel has a service that nobody made")
	}
	if out, err := exec.CommandContext(t.Context(), "nft", "list", "tables").CombinedOutput(); err == nil && strings.Contains(string(out), "table ip kube-proxy\n") {
		t.Error("the machine has the rules of the namespace")
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := p.run(ctx, 3); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want that it was given up", err)
	}
}

func TestKubeProxyThatEndsSaysWhy(t *testing.T) {
	p := standIn(t, "echo no such mode; exit 3\n")
	if _, err := p.run(t.Context(), 1); err == nil || !strings.Contains(err.Error(), "exit status 3") || !strings.Contains(err.Error(), "no such mode") {
		t.Errorf("error %v, want what it said", err)
	}
}

func TestWithoutKubeProxyANoteSaysWhoBuildsIt(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	var tab table
	if err := besideKubeProxy(t.Context(), &tab); err != nil || len(tab.Notes) != 1 || !strings.Contains(tab.Notes[0], ".ci/tools/others.sh kube-proxy") {
		t.Errorf("notes %q, %v", tab.Notes, err)
	}
}

func TestAnAddressIsReachedFromWithinANamespace(t *testing.T) {
	t.Parallel()
	needNamespaces(t)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		_, _ = c.Write([]byte("hello"))
		_ = c.Close()
	}()
	space, err := newNetSpace()
	if err != nil {
		t.Fatal(err)
	}
	defer space.close()
	dial := func() (c net.Conn, err error) {
		err = space.do(func() error { c, err = net.Dial("tcp", l.Addr().String()); return err })
		return c, err
	}
	if c, err := dial(); err == nil {
		t.Errorf("%v is reached without a relay", c.RemoteAddr())
	}
	if err := space.relay(l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	c, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	got := make([]byte, 8)
	if n, err := c.Read(got); err != nil || string(got[:n]) != "hello" {
		t.Errorf("got %q, %v", got[:n], err)
	}
}
