package main

import (
	"context"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	clientgotesting "k8s.io/client-go/testing"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/simulate"
)

// Flags of the agent that ask for nonsense are answered before anything starts.
func TestAgentsFlagsAreChecked(t *testing.T) {
	t.Parallel()
	for args, want := range map[string]string{
		"--shutdown-grace-period 5s":                                    "--shutdown-grace-period-critical-pods 10s: want 0s to --shutdown-grace-period, which is 5s",
		"--eviction-hard nodefs.availble<5%":                            `--eviction-hard: signal "nodefs.availble" is unknown: use imagefs.available, `,
		"--eviction-hard nodefs.available":                              `"nodefs.available": want SIGNAL<QUANTITY or SIGNAL<PERCENT%`,
		"--eviction-hard memory.available<lots":                         "memory.available<lots: want a quantity such as 100Mi, or a share such as 10%",
		"--eviction-hard memory.available<0":                            "memory.available<0: want more than nothing; 0% is for no threshold",
		"--eviction-hard pid.available<101%":                            "pid.available<101%: want 0% to 100%",
		"--eviction-hard pid.available<1%,pid.available<2%":             "signal pid.available is given twice",
		"--image-gc-high-threshold 101":                                 "--image-gc-high-threshold 101: want 1 to 100",
		"--image-gc-low-threshold 85":                                   "--image-gc-low-threshold 85: want 0 to 84, less than --image-gc-high-threshold",
		"--image-gc-high-threshold 10 --image-gc-low-threshold=-1":      "--image-gc-low-threshold -1: want 0 to 9",
		"--node-lease-duration 1ms":                                     "--node-lease-duration 1ms: want a second at least",
		"--eviction-hard memory.available<1Mi,nodefs.available<0x10%25": "nodefs.available<0x10%25: want a quantity",
		"--max-pods 0":                                     "--max-pods 0: want 1 at least",
		"--system-reserved cpus=1":                         `--system-reserved: "cpus" cannot be reserved: use cpu, memory, ephemeral-storage`,
		"--kube-reserved memory=lots":                      "--kube-reserved: memory=lots: want a quantity such as 200m or 500Mi",
		"--node-labels a/b/c=d":                            "--node-labels: a/b/c=d: ",
		"--node-labels node-role.kubernetes.io/master=yes": "--node-labels: node-role.kubernetes.io/master: a machine may not give itself this label",
		"--register-with-taints gpu=yes:Never":             "--register-with-taints: invalid taint effect: Never",
		"--register-with-taints gpu-":                      "--register-with-taints: gpu-: a new node has no taint to take off",
		"--runtime-handlers Kata=io.containerd.kata.v2":    "--runtime-handlers: Kata: a lowercase RFC 1123 label",
		"--runtime-handlers runc=/usr/bin/crun":            "--runtime-handlers: runc is there already",
		"--runtime-handlers crun=crun":                     "--runtime-handlers: crun=crun: want the path of a program, or a runtime of containerd's such as io.containerd.kata.v2",
		"--cluster-dns dns.local":                          `--cluster-dns "dns.local": want an IP address`,
		"--node-name a_b":                                  `--node-name "a_b": `,
		"--node-port 70000":                                "--node-port 70000: want 1 to 65535",
		"--cluster-domain a_b":                             `--cluster-domain "a_b": `,
	} {
		for _, command := range []string{"agent --server https://127.0.0.1:1", "up"} {
			_, err := berth(t, strings.Fields(command+" "+args+" --data-dir "+t.TempDir())...)
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("berth %s %s: %v\nwant %q", command, args, err, want)
			}
		}
	}
}

func TestANodesNameIsInSmallLetters(t *testing.T) {
	t.Parallel()
	for machine, want := range map[string]string{"DESKTOP-AB12": "desktop-ab12", " box\n": "box"} {
		if got := nodeName(machine); got != want {
			t.Errorf("the node of machine %q is called %q", machine, got)
		}
	}
}

func TestTheRangeOfAllPodsHasTheNodes(t *testing.T) {
	t.Parallel()
	for all, fits := range map[string]bool{"10.85.0.0/16": false, "10.200.0.0/16": true, "10.200.1.0/25": false, "10.200": false} {
		err := (&agentFlags{clusterCIDR: all}).within(netip.MustParsePrefix("10.200.1.0/24"))
		if fits != (err == nil) || err != nil && !strings.Contains(err.Error(), "--pod-cidr") {
			t.Errorf("--pod-cidr %s: %v", all, err)
		}
	}
}

// An agent that starts before its host waits for it.
func TestAnAgentWaitsForItsHost(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := &agentFlags{name: "n1", clusterCIDR: "10.85.0.0/16"}
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}, Spec: v1.NodeSpec{PodCIDR: "10.85.1.0/24"}}
		client := fake.NewClientset(node)
		refused := []error{&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, apierrors.NewServiceUnavailable("it starts"), io.ErrUnexpectedEOF}
		client.PrependReactor("get", "nodes", func(clientgotesting.Action) (bool, runtime.Object, error) {
			if len(refused) == 0 {
				return false, nil, nil
			}
			err := refused[0]
			refused = refused[1:]
			return true, nil, err
		})
		own, err := f.podRange(t.Context(), client, slog.New(slog.DiscardHandler))
		if err != nil || own.String() != "10.85.1.0/24" {
			t.Errorf("the range is %s, %v", own, err)
		}
		refused = []error{apierrors.NewForbidden(schema.GroupResource{Resource: "nodes"}, "n1", nil), apierrors.NewUnauthorized("no")}
		if _, err := f.podRange(t.Context(), client, slog.New(slog.DiscardHandler)); err == nil {
			t.Error("a machine that may not register waits")
		}
	})
}

// Simulated nodes have no containers that would need addresses: however many there
// are, a machine that comes after them gets its range.
func TestSimulatedNodesTakeNoRangeFromMachines(t *testing.T) {
	t.Parallel()
	kubeconfig, _ := startHost(t, t.TempDir(), func(c *host.Config) { c.PodCIDR = "10.85.0.0/24" }) // room for one node
	config, client := connected(t, kubeconfig)
	ctx, cancel := context.WithCancel(t.Context())
	registered, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		ended <- simulate.Run(ctx, simulate.Config{REST: config, N: 3, Log: slog.New(slog.DiscardHandler), Registered: func() { close(registered) }})
	}()
	defer func() { cancel(); <-ended }()
	<-registered
	asking, done := context.WithTimeout(t.Context(), 20*time.Second)
	defer done()
	own, err := givenRange(asking, client, &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "zz"}})
	if err != nil || own.String() != "10.85.0.0/24" {
		t.Errorf("the machine's range is %s, %v", own, err)
	}
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "type=simulated"})
	if err != nil || len(nodes.Items) != 3 {
		t.Fatalf("%d simulated nodes, %v", len(nodes.Items), err)
	}
	for i := range nodes.Items {
		if n := &nodes.Items[i]; n.Spec.PodCIDR != "" {
			t.Errorf("%s has the range %s", n.Name, n.Spec.PodCIDR)
		}
	}
}

func TestATokenIsReadFromAFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(file, []byte("abc\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ token, file, want, wrong string }{
		"as a word":    {"abc", "", "abc", ""},
		"by its file":  {"", file, "abc", ""},
		"by its input": {"", "-", "def", ""},
		"twice":        {"abc", file, "", "give one of them"},
		"from nowhere": {"", file + "x", "", "no such file"},
	} {
		got, err := readToken(test.token, test.file, strings.NewReader("def\n"))
		if got != test.want || (err == nil) != (test.wrong == "") || err != nil && !strings.Contains(err.Error(), test.wrong) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
}

func TestNodeFlagsReachTheNode(t *testing.T) {
	t.Parallel()
	f := nodeFlags{maxPods: 7, systemReserved: map[string]string{"cpu": "100m"}, kubeReserved: map[string]string{"cpu": "200m"},
		labels: map[string]string{"zone": "a"}, taintSpecs: []string{"gpu=yes:NoSchedule"}, clusterDNS: []string{"10.96.0.10"}, clusterDomain: "c.test"}
	if err := f.parse(); err != nil {
		t.Fatal(err)
	}
	var cfg nodeagent.Config
	f.into(&cfg)
	if cpu := cfg.Reserved[v1.ResourceCPU]; cfg.MaxPods != 7 || cpu.MilliValue() != 300 || cfg.DNS.Domain != "c.test" || len(cfg.DNS.Servers) != 1 {
		t.Errorf("configuration = %+v", cfg)
	}
	f.clusterDNS = []string{"none"}
	if f.into(&cfg); f.parse() != nil || len(cfg.DNS.Servers) != 0 {
		t.Errorf("without cluster DNS: %v, %+v", f.parse(), cfg.DNS)
	}
	f.clusterDNS = []string{"none", "10.96.0.10"}
	if err := f.parse(); err == nil || !strings.Contains(err.Error(), "none alone") {
		t.Errorf("none among others: %v", err)
	}
	node := f.blank("n1")
	if node.Labels["zone"] != "a" || len(node.Spec.Taints) != 2 || node.Spec.Taints[1].Key != "gpu" {
		t.Errorf("node = %+v", node)
	}
}
