package machine_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/apitest"
	"github.com/berth-dev/berth/nodeagent/image/testimage"
	"github.com/berth-dev/berth/nodeagent/machine"
	"github.com/berth-dev/berth/nodeagent/network/netnstest"
	"github.com/berth-dev/berth/nodeagent/tool"
)

func TestMain(m *testing.M) {
	machine.Main()
	netnstest.Main(m)
}

const imageName = "berth.test/busybox:1"

// node is an agent over a real machine and an API that only keeps objects.
type node struct {
	t           *testing.T
	api         *apitest.API
	machine     *machine.Machine
	root, state string
	stop        func()
	names       []netip.Addr // where the agent answers DNS
	confDir     string       // of a CNI in place of the bridge
}

func newNode(t *testing.T, names ...netip.Addr) *node {
	t.Helper()
	return openNode(t, &node{names: names})
}

func openNode(t *testing.T, n *node) *node {
	t.Helper()
	netnstest.Need(t, "ip")
	_, err := tool.FindAll([]string{"containerd", "containerd-shim-runc-v2", "runc"})
	if err == nil {
		_, err = tool.FindPlugins([]string{"bridge", "host-local", "loopback"})
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal(err)
	}
	if err != nil {
		t.Skip(err)
	}
	state, err := os.MkdirTemp("/run", "berth-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(state, 0o711); err != nil { // as stateOf's is made
		t.Fatal(err)
	}
	n.t, n.api, n.root, n.state = t, apitest.New(nil), t.TempDir(), state
	t.Cleanup(n.cleanUp)
	n.start()
	img, err := testimage.Busybox()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := testimage.Archive(imageName, img)
	if err != nil {
		t.Fatal(err)
	}
	// As the CLI does it, beside the process that has the machine open.
	images, closeImages, err := machine.Images(t.Context(), n.root, filepath.Join(n.state, "containerd.sock"))
	if err != nil {
		t.Fatal(err)
	}
	defer closeImages()
	if _, err := images.Import(t.Context(), archive); err != nil {
		t.Fatal(err)
	}
	return n
}

func (n *node) start() {
	n.t.Helper()
	log := slog.New(slog.NewTextHandler(n.t.Output(), nil))
	m, err := machine.Open(n.t.Context(), machine.Config{
		Root: n.root, State: n.state, PodRanges: []netip.Prefix{netip.MustParsePrefix("10.97.0.0/24")}, CNIConfDir: n.confDir, Log: log,
	})
	if err != nil {
		n.t.Fatal(err)
	}
	cfg := nodeagent.Config{
		Client: n.api, NodeName: "n1", RootDir: filepath.Join(n.root, "agent"), Log: log, Address: "127.0.0.1",
		Pressure: nodeagent.Pressure{Hard: nodeagent.NoThresholds(), ImagesHigh: 100}, AnswerAt: n.names,
	}
	if err := os.MkdirAll(cfg.RootDir, 0o755); err != nil {
		n.t.Fatal(err)
	}
	m.Equip(&cfg)
	agent, err := nodeagent.New(cfg)
	if err != nil {
		n.t.Fatal(errors.Join(err, m.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	watched := n.api.Watched("pods")
	go func() { done <- agent.Run(ctx) }()
	select {
	case <-watched:
	case <-time.After(2 * time.Minute):
		n.t.Error("the agent does not watch its pods")
	}
	n.machine = m
	n.stop = func() {
		cancel()
		if err := <-done; err != nil {
			n.t.Errorf("Run: %v", err)
		}
	}
}

func (n *node) cleanUp() {
	if n.machine != nil {
		n.stop()
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if err := errors.Join(n.machine.RemovePods(ctx), n.machine.Network.Close(ctx), n.machine.Close()); err != nil {
			n.t.Error(err)
		}
	}
	if err := os.RemoveAll(n.state); err != nil {
		n.t.Error(err)
	}
}

// web is a pod that answers on port 80 once it has said so.
func web(name string) *v1.Pod {
	no := false
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PodSpec{
			NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways, EnableServiceLinks: &no, DNSPolicy: v1.DNSDefault,
			Containers: []v1.Container{{
				Name: "app", Image: imageName, ImagePullPolicy: v1.PullIfNotPresent, TerminationMessagePath: "/dev/termination-log",
				Command: []string{"/bin/sh", "-c", "echo serving; mkdir /www; echo $GREETING > /www/index.html; exec httpd -f -p 80 -h /www"},
				Env:     []v1.EnvVar{{Name: "GREETING", Value: "hello from " + name}},
				Resources: v1.ResourceRequirements{Limits: v1.ResourceList{
					v1.ResourceMemory: resource.MustParse("32Mi"), v1.ResourceCPU: resource.MustParse("500m"),
				}},
				ReadinessProbe: &v1.Probe{
					ProbeHandler:  v1.ProbeHandler{HTTPGet: &v1.HTTPGetAction{Path: "/", Port: intstr.FromInt32(80), Scheme: v1.URISchemeHTTP}},
					PeriodSeconds: 1, TimeoutSeconds: 1, SuccessThreshold: 1, FailureThreshold: 3,
				},
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func (n *node) create(p *v1.Pod) {
	n.t.Helper()
	if _, err := n.api.CoreV1().Pods(p.Namespace).Create(n.t.Context(), p, metav1.CreateOptions{}); err != nil {
		n.t.Fatal(err)
	}
}

func (n *node) get(name string) (*v1.Pod, error) {
	return n.api.CoreV1().Pods("default").Get(n.t.Context(), name, metav1.GetOptions{})
}

func (n *node) awaitReady(name string) *v1.Pod {
	n.t.Helper()
	var last *v1.Pod
	if !polltest.Within(deadline, func() (ready bool) {
		var err error
		if last, err = n.get(name); err != nil {
			n.t.Fatal(err)
		}
		return slices.ContainsFunc(last.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
	}) {
		n.t.Fatalf("pod %s does not become ready: %+v", name, last.Status)
	}
	return last
}

func (n *node) delete(name string, grace int64) {
	n.t.Helper()
	p, err := n.get(name)
	if err != nil {
		n.t.Fatal(err)
	}
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	if _, err := n.api.CoreV1().Pods("default").Update(n.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		n.t.Fatal(err)
	}
	if !polltest.Within(deadline, func() bool {
		_, err := n.get(name)
		return apierrors.IsNotFound(err)
	}) {
		n.t.Fatalf("pod %s is still there", name)
	}
}

// deadline is how long a pod may take on a machine that is busy.
const deadline = 2 * time.Minute

func ask(t *testing.T, p *v1.Pod) string {
	t.Helper()
	client := http.Client{Timeout: 30 * time.Second}
	resp, err := client.Get("http://" + net.JoinHostPort(p.Status.PodIP, "80"))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(b))
}

// traces looks for what a pod left on the machine.
func (n *node) traces(uid string) (left []string) {
	list, err := n.machine.Runtime.List(n.t.Context())
	if err != nil {
		n.t.Fatal(err)
	}
	for _, s := range list.Sandboxes {
		left = append(left, "sandbox "+s.ID)
	}
	for _, c := range list.Containers {
		left = append(left, "container "+c.ID)
	}
	mounts, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		n.t.Fatal(err)
	}
	for line := range strings.Lines(string(mounts)) {
		if strings.Contains(line, uid) || strings.Contains(line, filepath.Join(n.state, "shm")) || strings.Contains(line, filepath.Join(n.state, "net")) ||
			strings.Contains(line, filepath.Join(n.root, "containerd", "mounted")) {
			left = append(left, "mount "+line)
		}
	}
	for _, pattern := range []string{
		n.root + "/agent/pods/*", n.state + "/net/netns/*", n.state + "/net/leases/berth/10.*", n.state + "/net/results/results/*",
		n.root + "/containerd/mounted/*", n.state + "/userns/*", n.state + "/io/*", n.state + "/shm/*", "/sys/fs/cgroup/*" + n.machine.CgroupRoot + "/kubepods/*/pod" + uid, "/sys/fs/cgroup/*" + n.machine.CgroupRoot + "/kubepods/pod" + uid,
	} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			n.t.Fatal(err)
		}
		left = append(left, files...)
	}
	return left
}

func (n *node) nothingLeft(uid string) {
	n.t.Helper()
	var left []string
	if !polltest.Within(time.Minute, func() bool {
		left = n.traces(uid)
		return len(left) == 0
	}) {
		n.t.Errorf("left behind: %q", left)
	}
}

func TestPodsRunForReal(t *testing.T) {
	n := newNode(t)
	n.create(web("a"))
	withImage := web("b") // whose server comes from an image volume
	withImage.Spec.Volumes = []v1.Volume{{Name: "tools", VolumeSource: v1.VolumeSource{Image: &v1.ImageVolumeSource{Reference: imageName, PullPolicy: v1.PullNever}}}}
	app := &withImage.Spec.Containers[0]
	app.VolumeMounts = []v1.VolumeMount{{Name: "tools", MountPath: "/tools", SubPath: "bin"}}
	app.Command[2] = strings.Replace(app.Command[2], "exec httpd", "exec /tools/httpd", 1)
	n.create(withImage)
	a, b := n.awaitReady("a"), n.awaitReady("b")
	if a.Status.PodIP == b.Status.PodIP {
		t.Errorf("both pods have %s", a.Status.PodIP)
	}
	for _, p := range []*v1.Pod{a, b} {
		if got, want := ask(t, p), "hello from "+p.Name; got != want {
			t.Errorf("pod %s answers %q, want %q", p.Name, got, want)
		}
	}
	cs := a.Status.ContainerStatuses[0]
	if a.Status.QOSClass != v1.PodQOSGuaranteed || cs.State.Running == nil || !strings.HasPrefix(cs.ContainerID, "containerd://") || cs.ImageID == "" {
		t.Errorf("status %+v", a.Status)
	}

	// The agent and containerd go; the pods do not.
	n.stop()
	if err := n.machine.Close(); err != nil {
		t.Fatal(err)
	}
	if got := ask(t, a); got != "hello from a" {
		t.Errorf("without its agent the pod answers %q", got)
	}
	n.start()
	n.create(web("c"))
	n.awaitReady("c")
	if again := n.awaitReady("a"); again.Status.ContainerStatuses[0].ContainerID != cs.ContainerID || again.Status.PodIP != a.Status.PodIP {
		t.Errorf("after the restart: %+v, before: %+v", again.Status, a.Status)
	}

	for _, name := range []string{"a", "b", "c"} {
		n.delete(name, 1)
	}
	n.nothingLeft("uid-a")
	n.nothingLeft("uid-b")
}

func TestPodsEndAsTheyShould(t *testing.T) {
	n := newNode(t)
	tests := []struct {
		name, script string
		memory       string
		code         int32
		reason       string
	}{
		{"done", "exit 0", "32Mi", 0, "Completed"},
		{"failed", "echo why > /dev/termination-log; exit 3", "32Mi", 3, "Error"},
		{"greedy", "exec tail /dev/zero", "16Mi", 137, "OOMKilled"},
	}
	for _, tt := range tests {
		p := web(tt.name)
		p.Spec.RestartPolicy = v1.RestartPolicyNever
		c := &p.Spec.Containers[0]
		c.Command, c.ReadinessProbe = []string{"/bin/sh", "-c", tt.script}, nil
		c.Resources.Limits[v1.ResourceMemory] = resource.MustParse(tt.memory)
		n.create(p)
	}
	for _, tt := range tests {
		var end *v1.ContainerStateTerminated
		polltest.Within(deadline, func() bool {
			p, err := n.get(tt.name)
			if err != nil {
				t.Fatal(err)
			}
			if cs := p.Status.ContainerStatuses; len(cs) == 1 {
				end = cs[0].State.Terminated
			}
			return end != nil
		})
		if end == nil || end.ExitCode != tt.code || end.Reason != tt.reason {
			t.Errorf("pod %s ended as %+v, want %d %s", tt.name, end, tt.code, tt.reason)
		}
	}
	for _, tt := range tests {
		n.delete(tt.name, 1)
	}
	n.nothingLeft("uid-done")
}
