package walk_test

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/polltest"
)

// cluster is a running `berth up`, and the tools to use it.
type cluster struct {
	t       *testing.T
	dir     string
	args    []string
	cmd     *exec.Cmd
	exited  chan struct{}
	log     *logFile
	rest    *rest.Config
	client  kubernetes.Interface
	kubectl string
}

// newCluster starts `berth up` with args, or `berth host` if that comes first,
// on a fresh data directory.
func newCluster(t *testing.T, args ...string) *cluster {
	t.Helper()
	c := &cluster{t: t, dir: t.TempDir(), args: args, kubectl: program(t, "kubectl")}
	t.Cleanup(c.end)
	c.start()
	return c
}

// start runs the binary until it says that it is ready.
func (c *cluster) start() {
	c.t.Helper()
	c.cmd, c.log, c.exited = c.command(), new(logFile), make(chan struct{})
	c.cmd.Stderr = c.log
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		c.t.Fatal(err)
	}
	if err := c.cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	ready := make(chan bool, 1)
	go c.follow(out, ready)
	select {
	case ok := <-ready:
		if !ok {
			c.t.Fatalf("berth %v ended before it was ready:\n%s", c.args, c.log)
		}
	case <-time.After(startTime):
		c.t.Fatalf("berth %v is not ready after %s:\n%s", c.args, startTime, c.log)
	}
	c.connect()
}

// command is the binary with the cluster's arguments.
func (c *cluster) command() *exec.Cmd {
	verb, args := "up", c.args
	if len(args) > 0 && args[0] == "host" {
		verb, args = args[0], args[1:]
	}
	cmd := exec.Command(binary, append([]string{verb, "--data-dir", c.dir}, args...)...)
	cmd.Env = append(os.Environ(), "KUBECONFIG=")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C is for the test alone
	return cmd
}

// follow reads what the binary prints, and takes its end.
func (c *cluster) follow(out io.Reader, ready chan<- bool) {
	defer close(c.exited)
	lines := bufio.NewScanner(out)
	for lines.Scan() {
		if strings.HasPrefix(lines.Text(), "ready in ") {
			ready <- true
		}
	}
	_ = c.cmd.Wait()
	select {
	case ready <- false:
	default:
	}
}

func (c *cluster) connect() {
	c.t.Helper()
	var err error
	if c.rest, err = clientcmd.BuildConfigFromFlags("", c.kubeconfig()); err != nil {
		c.t.Fatal(err)
	}
	c.rest.QPS = -1
	if c.client, err = kubernetes.NewForConfig(c.rest); err != nil {
		c.t.Fatal(err)
	}
}

func (c *cluster) kubeconfig() string { return filepath.Join(c.dir, "kubeconfig") }

// startTime is for a first start while other tests keep all processors busy: the
// modules are compiled by a process that stands back behind those.
const startTime = 3 * time.Minute

// kill ends the host as a power cut would.
func (c *cluster) kill() {
	_ = c.cmd.Process.Kill()
	<-c.exited
}

// end stops the cluster as its user would, and wants a clean exit.
func (c *cluster) end() {
	if c.cmd == nil || c.cmd.Process == nil {
		return
	}
	_ = c.cmd.Process.Signal(syscall.SIGINT)
	select {
	case <-c.exited:
	case <-time.After(90 * time.Second):
		c.t.Error("berth up does not end on SIGINT")
		c.kill()
	}
	if code := c.cmd.ProcessState.ExitCode(); code != 0 && !c.t.Failed() {
		c.t.Errorf("berth up exits with %d", code)
	}
	if c.t.Failed() {
		c.t.Logf("what berth up logged last:\n%s", c.log)
	}
}

// fullDisk keeps a node at work however little is left of its machine, so that a
// walk never depends on how full a disk is.
var fullDisk = []string{
	"--eviction-hard", "memory.available<0%,nodefs.available<0%,nodefs.inodesFree<0%,imagefs.available<0%,imagefs.inodesFree<0%,pid.available<0%",
	"--image-gc-high-threshold", "100",
}

// run runs a part of a walk, and if it fails tells how the cluster was.
func (c *cluster) run(t *testing.T, name string, part func(*testing.T)) bool {
	t.Helper()
	return t.Run(name, func(t *testing.T) {
		t.Cleanup(func() {
			if t.Failed() {
				t.Logf("how the cluster was then:\n%s", c.told())
			}
		})
		part(t)
	})
}

// told is what the cluster says of itself: its nodes' conditions, its pods, and
// the events that came last.
func (c *cluster) told() string {
	const conditions = `jsonpath={range .items[*]}{.metadata.name}:{range .status.conditions[*]} {.type}={.status} ({.reason}){end}{"\n"}{end}`
	var all strings.Builder
	for _, args := range [][]string{
		{"get", "nodes", "-o", conditions},
		{"get", "pods", "-A", "-o", "wide"},
		{"get", "events", "-A", "--sort-by=.lastTimestamp", "--field-selector=reason!=Live"},
	} {
		out, said, err := c.try(c.kubectl, append(args, "--request-timeout=20s")...)
		if err != nil {
			out += said
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		fmt.Fprintf(&all, "$ kubectl %s\n%s\n", strings.Join(args[:2], " "), strings.Join(lines[max(0, len(lines)-40):], "\n"))
	}
	return all.String()
}

// try runs a program with the cluster's kubeconfig.
func (c *cluster) try(name string, args ...string) (stdout, stderr string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "KUBECONFIG="+c.kubeconfig())
	var out, said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &said
	err = cmd.Run()
	return out.String(), said.String(), err
}

// must runs a program that has to succeed, and returns what it prints.
func (c *cluster) must(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, said, err := c.try(name, args...)
	if err != nil {
		t.Fatalf("%s %s: %v\n%s%s", filepath.Base(name), strings.Join(args, " "), err, out, said)
	}
	return out
}

// mustFail runs a program that has to fail, and returns what it says.
func (c *cluster) mustFail(t *testing.T, name string, args ...string) string {
	t.Helper()
	out, said, err := c.try(name, args...)
	if err == nil {
		t.Fatalf("%s %s succeeds:\n%s%s", filepath.Base(name), strings.Join(args, " "), out, said)
	}
	return said
}

// pod returns a pod of the default namespace.
func (c *cluster) pod(t *testing.T, name string) *v1.Pod {
	t.Helper()
	p, err := c.client.CoreV1().Pods("default").Get(t.Context(), name, metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// awaitPod waits until done holds of the pod.
func (c *cluster) awaitPod(t *testing.T, name, what string, done func(*v1.Pod) bool) *v1.Pod {
	t.Helper()
	var p *v1.Pod
	eventually(t, "pod "+name+" "+what, func() bool {
		p = c.pod(t, name)
		return done(p)
	})
	return p
}

// eventually asks until done holds, for a minute.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	polltest.Until(t, what, done)
}

func condition(p *v1.Pod, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{Type: kind, Status: "absent"}
}

func isReady(p *v1.Pod) bool { return condition(p, v1.PodReady).Status == v1.ConditionTrue }

// campaign says whether the long checks are asked for, by ./task campaign.
func campaign() bool { return os.Getenv("BERTH_CAMPAIGN") != "" }

// alone says that what a campaign may have left on this machine is not to be used:
// CI does the same on each.
func alone() bool { return os.Getenv("CI") != "" && !campaign() }

// program finds a tool as berth does: among its own, then on PATH.
func program(t *testing.T, name string) string {
	t.Helper()
	own := filepath.Join(build.ToolsDir(), "bin", name)
	if _, err := os.Stat(own); err == nil {
		return own
	}
	path, err := exec.LookPath(name)
	if err != nil {
		missing(t, name+" is neither on PATH nor among Berth's tools: run ./task tools")
	}
	return path
}

// missing skips the test, but in CI and in a campaign, where nothing may be.
func missing(t *testing.T, what string) {
	t.Helper()
	if os.Getenv("CI") != "" || campaign() {
		t.Fatal(what)
	}
	t.Skip(what)
}

// fetch returns the answer to a GET.
func fetch(t *testing.T, url string) string {
	t.Helper()
	client := http.Client{Timeout: 10 * time.Second}
	resp, err := client.Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		t.Fatalf("GET %s: %s %v: %s", url, resp.Status, err, body)
	}
	return string(body)
}

// logFile keeps the end of what a process logs.
type logFile struct {
	mu   sync.Mutex
	text []byte
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p...)
	if extra := len(l.text) - 16<<10; extra > 0 {
		l.text = l.text[extra:]
	}
	return len(p), nil
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.text)
}
