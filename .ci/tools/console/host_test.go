package console

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
)

const nodes = 500

// cluster is a host with simulated nodes, by the real binary.
type cluster struct {
	t       *testing.T
	dir     string
	nodes   int
	address string
	process *exec.Cmd
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	return newClusterOf(t, nodes)
}

func newClusterOf(t *testing.T, nodes int) *cluster {
	t.Helper()
	if os.Getenv("BERTH") == "" {
		t.Fatal("BERTH names no binary: run `./task console-test`")
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cluster{t: t, dir: t.TempDir(), nodes: nodes, address: free.Addr().String()}
	free.Close()
	c.start()
	t.Cleanup(c.stop)
	return c
}

// start runs the host until it says that it is ready.
func (c *cluster) start() {
	c.t.Helper()
	out := &watched{want: "ready in", found: make(chan struct{})}
	c.process = exec.Command(os.Getenv("BERTH"), "up", "--agent", "none", "--simulate", fmt.Sprint(c.nodes), "--simulate-node", "zones=3", "--node-monitor-grace-period", "1h",
		"--data-dir", c.dir, "--listen", c.address)
	c.process.Stdout, c.process.Stderr = out, out
	if err := c.process.Start(); err != nil {
		c.t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- c.process.Wait() }()
	select {
	case <-out.found:
	case err := <-ended:
		c.t.Fatalf("the host ended: %v\n%s", err, out)
	}
	c.process.Cancel = func() error { <-ended; return nil } // what stop waits by
}

func (c *cluster) stop() {
	if c.process == nil {
		return
	}
	_ = c.process.Process.Signal(syscall.SIGTERM)
	_ = c.process.Cancel()
	c.process = nil
}

// run runs a program on the cluster, with what it reads, and returns what it says.
func (c *cluster) run(input, program string, args ...string) string {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), program, args...)
	cmd.Env = append(os.Environ(), "KUBECONFIG="+filepath.Join(c.dir, "kubeconfig"))
	cmd.Stdin = strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	if err != nil {
		c.t.Fatalf("%s %v: %v\n%s", program, args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// user makes a kubeconfig of somebody else, by a certificate of the host's authority,
// and gives its path.
func (c *cluster) user(name string) string {
	c.t.Helper()
	c.run("", "sh", "-ec", `cd "$1"
		openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout "$2.key" -subj "/CN=$2" -out "$2.csr" 2>&1
		printf 'extendedKeyUsage = clientAuth\n' >"$2.ext"
		openssl x509 -req -in "$2.csr" -CA pki/ca.crt -CAkey pki/ca.key -days 1 -extfile "$2.ext" -out "$2.crt" 2>&1
		cp kubeconfig "$2.kubeconfig"
		kubectl config --kubeconfig "$2.kubeconfig" set-credentials "$2" --client-certificate "$2.crt" --client-key "$2.key" --embed-certs
		kubectl config --kubeconfig "$2.kubeconfig" set-context --current --user "$2"`, "sh", c.dir, name)
	return filepath.Join(c.dir, name+".kubeconfig")
}

// module is one, in base64, of a priority whose score is an expression.
func (c *cluster) module(score string) string {
	c.t.Helper()
	return c.built("fill", "priority", `package main

import "github.com/berth-dev/berth/sdk"

type fill struct{}

func (fill) Score(_ *sdk.Pod, node *sdk.Node) int64 { return `+score+` }

func init() {
	sdk.Priority("Fill", fill{}, sdk.Reads(sdk.NodeUsage), sdk.Normalize(sdk.NormalizeMax))
}

func main() {}
`)
}

// built is a module in base64, of a policy's kind and source.
func (c *cluster) built(name, kind, source string) string {
	c.t.Helper()
	dir := filepath.Join(c.t.TempDir(), name)
	c.run("", "sh", "-c", `cd "$(dirname "$1")" && "$BERTH" policy new "$(basename "$1")" --kind "$2"`, "sh", dir, kind)
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.run("", os.Getenv("BERTH"), "policy", "build", dir, "--strip", "-o", dir+".wasm")
	wasm, err := os.ReadFile(dir + ".wasm")
	if err != nil {
		c.t.Fatal(err)
	}
	return base64.StdEncoding.EncodeToString(wasm)
}

// watched keeps what is written, and tells when it holds some text.
type watched struct {
	mu    sync.Mutex
	text  bytes.Buffer
	want  string
	found chan struct{}
	once  sync.Once
}

func (w *watched) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if bytes.Contains(w.text.Bytes(), []byte(w.want)) {
		w.once.Do(func() { close(w.found) })
	}
	return len(p), nil
}

func (w *watched) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
