package cni

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// ofMine is the configuration of a user's own bridge.
func ofMine(name, bridge, subnet, leases string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","name":%q,"plugins":[{"type":"bridge","bridge":%q,"isGateway":true,
		"ipam":{"type":"host-local","ranges":[[{"subnet":%q}]],"routes":[{"dst":"0.0.0.0/0"}],"dataDir":%q}}]}`, name, bridge, subnet, leases)
}

// Pods are on the network that the user's own CNI has configured, and leave it as it
// was when they came, though it has changed since; host ports answer there, too.
func TestTheUsersOwnCNIConnectsPods(t *testing.T) {
	t.Parallel()
	h, dir, leases := newHost(t), t.TempDir(), t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var told bytes.Buffer
	n := h.mustOpen(t, func(c *Config) { c.ConfDir, c.Log = dir, slog.New(slog.NewTextHandler(&told, nil)) })
	h.Within(func() {
		if err := n.Ready(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no network configuration in "+dir) {
			t.Errorf("with an empty folder it is ready: %v", err)
		}
	})
	if _, err := h.add(t, n, pod("early")); err == nil || !strings.Contains(err.Error(), "pods wait until their CNI has put one there") {
		t.Errorf("a pod is connected by nothing: %v", err)
	}

	write("20-other.conflist", "not looked at")
	write("10-mine.conflist", ofMine("mine", "mine0", "172.31.7.0/24", leases))
	a := h.mustAdd(t, n, network.Pod{ID: "a-0", Namespace: "default", Name: "a", Ports: []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}})
	b := h.mustAdd(t, n, pod("b"))
	for _, one := range []network.Attachment{a, b} {
		if len(one.IPs) != 1 || !netip.MustParsePrefix("172.31.7.0/24").Contains(one.IPs[0]) {
			t.Errorf("a pod has the addresses %v, want one of 172.31.7.0/24", one.IPs)
		}
	}
	serve(t, a.NetNS, ":80")
	if !strings.Contains(told.String(), "outside of the cluster's range") {
		t.Errorf("that its addresses are no pods' is not told: %s", &told)
	}
	mustAsk(t, b.NetNS, a.IPs[0].String()+":80", b.IPs[0].String())
	mustAsk(t, string(h.NS), a.IPs[0].String()+":80", "172.31.7.1")
	mustAsk(t, b.NetNS, "172.31.7.1:8080", b.IPs[0].String())
	if text := h.Run(t, "nft list set bridge berth-berth0 ports"); strings.Contains(text, "elements") {
		t.Errorf("what the CNI's pods send by is not Berth's business:\n%s", text)
	}
	if again := h.mustAdd(t, n, pod("b")); again.IPs[0] != b.IPs[0] {
		t.Errorf("a pod that is connected is connected anew, from %v to %v", b.IPs, again.IPs)
	}
	h.Within(func() {
		if err := n.Ready(t.Context()); err != nil {
			t.Error(err)
		}
		if err := n.SetPeers(t.Context(), nil, []Peer{{netip.MustParsePrefix("10.99.2.0/24"), netip.MustParseAddr("192.0.2.9")}}); err != nil {
			t.Errorf("the ways to others are the CNI's own: %v", err)
		}
	})

	// One plugin without a list does, too.
	if err := os.Remove(filepath.Join(dir, "10-mine.conflist")); err != nil {
		t.Fatal(err)
	}
	write("15-mine.conf", fmt.Sprintf(`{"cniVersion":"1.0.0","name":"changed","type":"bridge","bridge":"mine1","isGateway":true,
		"ipam":{"type":"host-local","ranges":[[{"subnet":"172.31.8.0/24"}]],"dataDir":%q}}`, leases))
	c := h.mustAdd(t, n, pod("c"))
	if !netip.MustParsePrefix("172.31.8.0/24").Contains(c.IPs[0]) {
		t.Errorf("after a change a pod has %v", c.IPs)
	}
	h.Within(func() {
		if err := n.Sweep(context.Background(), network.Nothing); err != nil {
			t.Error(err)
		}
	})
	for _, name := range []string{"mine", "changed"} {
		left, err := filepath.Glob(filepath.Join(leases, name, "172.*"))
		if err != nil || len(left) > 0 {
			t.Errorf("addresses of %s are still taken: %v, %v", name, left, err)
		}
	}
}

// TestHostPortsOfTheUsersOwnCNI: another process finds the pods' ports, also once
// their network's configuration is another.
func TestHostPortsOfTheUsersOwnCNI(t *testing.T) {
	t.Parallel()
	h, dir, leases := newHost(t), t.TempDir(), t.TempDir()
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, "10.conflist"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(ofMine("mine", "mine0", "172.31.7.0/24", leases))
	n := h.mustOpen(t, func(c *Config) { c.ConfDir = dir })
	web, client := pod("web"), h.mustAdd(t, n, pod("client"))
	web.Ports = []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "TCP"}}
	serve(t, h.mustAdd(t, n, web).NetNS, ":80")
	mustAsk(t, client.NetNS, "172.31.7.1:8080", client.IPs[0].String())
	write(ofMine("changed", "mine1", "172.31.8.0/24", leases))
	n = h.mustOpen(t, func(c *Config) { c.ConfDir, c.State = dir, n.cfg.State })
	h.Within(func() {
		if err := n.Forward().Apply(forward.NewChange(), true); err != nil {
			t.Fatal(err)
		}
	})
	mustAsk(t, client.NetNS, "172.31.7.1:8080", client.IPs[0].String())
	if sent := n.Forward().Sent(); sent != 0 {
		t.Errorf("a process that finds all as it should be made %d changes", sent)
	}
	h.Within(func() {
		if err := n.Sweep(context.Background(), network.Nothing); err != nil {
			t.Error(err)
		}
	})
}

// overheard runs plugins, and keeps what the one of a name is told.
type overheard struct {
	*invoke.DefaultExec
	name string
	told []byte
}

func (o *overheard) ExecPlugin(ctx context.Context, path string, stdin []byte, env []string) ([]byte, error) {
	if filepath.Base(path) == o.name {
		o.told = stdin
	}
	return o.DefaultExec.ExecPlugin(ctx, path, stdin, env)
}

// TestTheUsersOwnCNIIsToldOfBandwidth: where a plugin says that it can limit it.
func TestTheUsersOwnCNIIsToldOfBandwidth(t *testing.T) {
	t.Parallel()
	h, dir := newHost(t), t.TempDir()
	text := ofMine("mine", "mine0", "172.31.7.0/24", t.TempDir())
	text = strings.Replace(text, `"type":"bridge"`, `"type":"bridge","capabilities":{"bandwidth":true,"portMappings":true}`, 1)
	if err := os.WriteFile(filepath.Join(dir, "10.conflist"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	n := h.mustOpen(t, func(c *Config) { c.ConfDir = dir })
	bridge := &overheard{DefaultExec: &invoke.DefaultExec{RawExec: &invoke.RawExec{Stderr: io.Discard}}, name: "bridge"}
	n.cni = libcni.NewCNIConfigWithCacheDir(tool.PluginDirs(), n.cfg.resultDir(), bridge)
	p := pod("slow")
	p.Ingress, p.Ports = 1_000_000, []network.PortMapping{{HostPort: 8080, ContainerPort: 80, Protocol: "tcp"}}
	h.mustAdd(t, n, p)
	var told struct{ RuntimeConfig map[string]map[string]int64 }
	if err := json.Unmarshal(bridge.told, &told); err != nil {
		t.Fatalf("%s: %v", bridge.told, err)
	}
	want := map[string]map[string]int64{"bandwidth": {"ingressRate": 1_000_000, "ingressBurst": math.MaxUint32}}
	if diff := cmp.Diff(want, told.RuntimeConfig); diff != "" {
		t.Errorf("the plugin is told (-want +got):\n%s", diff)
	}
	h.Within(func() {
		if err := n.Sweep(context.Background(), network.Nothing); err != nil {
			t.Error(err)
		}
	})
}

// TestWhatWillNotWorkByTheUsersOwnCNIIsTold: in a line of the log each, once, at the
// start, or when the CNI has put its configuration there, or has given an address.
func TestWhatWillNotWorkByTheUsersOwnCNIIsTold(t *testing.T) {
	t.Parallel()
	const past, outside = "Services will not answer between pods on the bridge of your CNI", "your CNI gives pods addresses outside of the cluster's range"
	dhcp := `{"cniVersion":"1.0.0","name":"mine","type":"loopback","ipam":{"type":"dhcp"}}`
	for name, tt := range map[string]struct {
		text, shown string
		given       string
		want        []string
	}{
		"all is well":                   {ofMine("mine", "mine0", "10.99.1.0/24", "/leases"), "1", "", nil},
		"a bridge past the rules":       {ofMine("mine", "mine0", "10.99.1.0/24", "/leases"), "0", "", []string{past}},
		"another range":                 {ofMine("mine", "mine0", "172.31.7.0/24", "/leases"), "1", "172.31.7.2", []string{outside}},
		"a range that is too large":     {ofMine("mine", "mine0", "10.0.0.0/8", "/leases"), "1", "10.99.1.2", []string{outside}},
		"one subnet, in the older form": {`{"cniVersion":"1.0.0","name":"mine","type":"bridge","ipam":{"type":"host-local","subnet":"172.31.7.0/24"}}`, "0", "", []string{past, outside}},
		"no bridge, an address of ours": {dhcp, "0", "10.99.1.2", nil},
		"no bridge, another address":    {dhcp, "0", "172.31.7.2", []string{outside}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h, dir := newHost(t), t.TempDir()
			var told bytes.Buffer
			n := h.mustOpen(t, func(c *Config) {
				c.ConfDir, c.ClusterRanges, c.Log = dir, []netip.Prefix{netip.MustParsePrefix("10.99.0.0/16")}, slog.New(slog.NewTextHandler(&told, nil))
			})
			told.Reset() // nothing is configured yet
			if err := os.WriteFile(filepath.Join(dir, "10.conf"+map[bool]string{true: "list"}[strings.Contains(tt.text, "plugins")]), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			h.Within(func() {
				if err := os.WriteFile(bridgeFilter, []byte(tt.shown), 0o644); err != nil {
					t.Error(err)
				}
				for range 2 {
					if err := n.Ready(t.Context()); err != nil {
						t.Error(err)
					}
				}
			})
			if a, err := netip.ParseAddr(tt.given); err == nil {
				n.checkWithin(netip.PrefixFrom(a, a.BitLen()))
			}
			for _, want := range tt.want {
				if strings.Count(told.String(), want) != 1 {
					t.Errorf("told %q, want %q once", &told, want)
				}
			}
			if got := strings.Count(told.String(), "\n"); got != len(tt.want) {
				t.Errorf("told %d lines, want %d: %s", got, len(tt.want), &told)
			}
		})
	}
}

func TestAWrongConfigurationOfACNIIsTold(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ file, text, want string }{
		"no JSON":             {"10.conflist", "{", "10.conflist"},
		"no plugins":          {"10.conflist", `{"cniVersion":"1.0.0","name":"n","plugins":[]}`, "10.conflist"},
		"no name of a plugin": {"10.conf", `{"cniVersion":"1.0.0","name":"n"}`, "10.conf"},
		"a plugin is missing": {"10.conf", `{"cniVersion":"1.0.0","name":"n","type":"nobody-has-this"}`, "nobody-has-this"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, tt.file), []byte(tt.text), 0o600); err != nil {
				t.Fatal(err)
			}
			n := &Network{cfg: Config{ConfDir: dir}}
			if err := n.checkOwn(); err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
	n := &Network{cfg: Config{ConfDir: filepath.Join(t.TempDir(), "gone")}}
	if err := n.checkOwn(); err == nil {
		t.Error("a folder that is not there is no error")
	}
}
