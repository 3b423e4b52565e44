package nodeagent_test

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent"
	"github.com/berth-dev/berth/nodeagent/apitest"
	imagefake "github.com/berth-dev/berth/nodeagent/image/fake"
	networkfake "github.com/berth-dev/berth/nodeagent/network/fake"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
)

type mount = runtime.Mount

// fakes are what an agent is made of in tests.
type fakes struct {
	api     *apitest.API
	runtime *runtimefake.Runtime
	network *networkfake.Network
	images  *imagefake.Store
	root    string
}

func newFakes(root string, gate apitest.Gate) fakes {
	return fakes{
		api: apitest.New(gate), runtime: runtimefake.New(), images: imagefake.New(),
		network: networkfake.New(netip.MustParsePrefix("10.9.0.0/24")), root: root,
	}
}

// config is that of an agent over them.
func (f *fakes) config() nodeagent.Config {
	return nodeagent.Config{
		Client: f.api, NodeName: "n1", RootDir: f.root, Runtime: f.runtime, Network: f.network, Images: f.images,
		Address: "192.0.2.1", Pressure: nodeagent.Pressure{Hard: nodeagent.NoThresholds(), ImagesHigh: 100},
	}
}

// machine is one agent over fakes.
type machine struct {
	fakes
	t      *testing.T
	change func(*nodeagent.Config) // nil changes nothing
	agent  *nodeagent.Agent
	stop   func()
}

func newMachine(t *testing.T) *machine {
	m := &machine{t: t, fakes: newFakes(t.TempDir(), nil)}
	m.start()
	t.Cleanup(func() { m.stop() })
	return m
}

func (m *machine) start() {
	m.t.Helper()
	cfg := m.config()
	if m.change != nil {
		m.change(&cfg)
	}
	a, err := nodeagent.New(cfg)
	if err != nil {
		m.t.Fatal(err)
	}
	m.agent = a
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	watched := m.api.Watched("pods")
	go func() { done <- a.Run(ctx) }()
	select {
	case <-watched:
	case <-time.After(time.Minute):
		m.t.Error("the agent does not watch its pods")
	}
	m.stop = func() {
		cancel()
		select {
		case err := <-done:
			if err != nil {
				m.t.Errorf("Run: %v", err)
			}
		case <-time.After(time.Minute):
			m.t.Errorf("Run does not return")
		}
	}
}

func (m *machine) create(p *v1.Pod) {
	m.t.Helper()
	if _, err := m.api.CoreV1().Pods(p.Namespace).Create(m.t.Context(), p, metav1.CreateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

// await polls till the pod is as wanted.
func (m *machine) await(name, what string, is func(*v1.Pod) bool) *v1.Pod {
	m.t.Helper()
	last := &v1.Pod{}
	if !polltest.Within(time.Minute, func() bool {
		p, err := m.api.CoreV1().Pods("default").Get(m.t.Context(), name, metav1.GetOptions{})
		if err == nil {
			last = p
		}
		return err == nil && is(p)
	}) {
		m.t.Fatalf("pod %s is not %s; calls %v; last %+v", name, what, m.runtime.Calls(), last.Status)
	}
	return last
}

func (m *machine) awaitGone(name string) {
	m.t.Helper()
	polltest.Until(m.t, "pod "+name+" is gone", func() bool {
		_, err := m.api.CoreV1().Pods("default").Get(m.t.Context(), name, metav1.GetOptions{})
		return apierrors.IsNotFound(err)
	})
}

// terminate does what the API does for a graceful deletion.
func (m *machine) terminate(name string, grace int64) {
	m.t.Helper()
	p, err := m.api.CoreV1().Pods("default").Get(m.t.Context(), name, metav1.GetOptions{})
	if err != nil {
		m.t.Fatal(err)
	}
	at := metav1.NewTime(time.Now().Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	if _, err := m.api.CoreV1().Pods("default").Update(m.t.Context(), p, metav1.UpdateOptions{}); err != nil {
		m.t.Fatal(err)
	}
}

func newPod(name, script string) *v1.Pod {
	no := false
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PodSpec{
			NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways, EnableServiceLinks: &no, DNSPolicy: v1.DNSDefault,
			Containers: []v1.Container{{
				Name: "app", Image: "busybox:1", Command: []string{"/bin/sh", "-c", script}, TerminationMessagePath: "/dev/termination-log",
			}},
		},
		Status: v1.PodStatus{Phase: v1.PodPending},
	}
}

func ready(p *v1.Pod) bool {
	return slices.ContainsFunc(p.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodReady && c.Status == v1.ConditionTrue })
}

// nothingLeft waits till a pod left no trace.
func (m *machine) nothingLeft(uid string) {
	m.t.Helper()
	var left []string
	if !polltest.Within(time.Minute, func() bool {
		left = m.left(uid)
		return len(left) == 0
	}) {
		m.t.Errorf("left behind: %v", left)
	}
}

func (m *machine) left(uid string) (left []string) {
	list, err := m.runtime.List(m.t.Context())
	if err != nil {
		m.t.Fatal(err)
	}
	if len(list.Containers)+len(list.Sandboxes) > 0 {
		left = append(left, fmt.Sprintf("in the runtime: %+v", list))
	}
	if n := m.network.Attached(); n != 0 {
		left = append(left, fmt.Sprintf("%d networks", n))
	}
	_ = filepath.WalkDir(m.root, func(path string, _ os.DirEntry, err error) error {
		if err == nil && strings.Contains(path, uid) {
			left = append(left, path)
		}
		return nil // what goes away while we look is not left
	})
	return left
}

func TestPodRunsAndLeavesNothing(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "echo hello; sleep 600"))
	p := m.await("web", "ready", ready)
	if p.Status.Phase != v1.PodRunning || p.Status.PodIP == "" || p.Status.HostIP != "192.0.2.1" || p.Status.QOSClass != v1.PodQOSBestEffort {
		t.Errorf("status %+v", p.Status)
	}
	cs := p.Status.ContainerStatuses
	if len(cs) != 1 || cs[0].State.Running == nil || !strings.HasPrefix(cs[0].ContainerID, "fake://") || cs[0].RestartCount != 0 {
		t.Errorf("container statuses %+v", cs)
	}
	m.terminate("web", 1)
	m.awaitGone("web")
	m.nothingLeft("uid-web")
}

// Its environment is a container's for good: what another read a moment ago is not it.
func TestAContainerStartsWithWhatAConfigMapHasNow(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	maps := m.api.CoreV1().ConfigMaps("default")
	cm := &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "settings"}, Data: map[string]string{"MODE": "old"}}
	if _, err := maps.Create(t.Context(), cm, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"old", "new"} {
		cm.Data["MODE"] = want
		if _, err := maps.Update(t.Context(), cm, metav1.UpdateOptions{}); err != nil {
			t.Fatal(err)
		}
		p := newPod(want, "sleep 600")
		p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "settings"}}}}
		m.create(p)
		got := m.await(want, "ready", ready)
		cfg, _ := m.runtime.Config(strings.TrimPrefix(got.Status.ContainerStatuses[0].ContainerID, "fake://"))
		if !slices.Contains(cfg.Env, runtime.EnvVar{Name: "MODE", Value: want}) {
			t.Errorf("pod %s starts with %v", want, cfg.Env)
		}
	}
}

func TestPodsBoundDirectlyAreJudged(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("away", "sleep 600")
	p.Spec.NodeSelector = map[string]string{"disk": "ssd"}
	m.create(p)
	got := m.await("away", "failed", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	if got.Status.Reason != "NodeAffinity" || !strings.HasPrefix(got.Status.Message, "Pod was rejected") {
		t.Errorf("reason %q, message %q", got.Status.Reason, got.Status.Message)
	}
	if len(m.runtime.Calls()) > 0 && slices.ContainsFunc(m.runtime.Calls(), func(c string) bool { return strings.HasPrefix(c, "RunSandbox") }) {
		t.Errorf("a refused pod got a sandbox")
	}
}

func TestReadinessGates(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("gated", "sleep 600")
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "example.com/warm"}}
	m.create(p)
	gate := func(p *v1.Pod) v1.ConditionStatus {
		for _, c := range p.Status.Conditions {
			if c.Type == "example.com/warm" {
				return c.Status
			}
		}
		return ""
	}
	got := m.await("gated", "running", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodRunning })
	if gate(got) != v1.ConditionFalse || ready(got) {
		t.Errorf("gate %q, ready %v; want False, false", gate(got), ready(got))
	}
	patch := []byte(`{"status":{"conditions":[{"type":"example.com/warm","status":"True"}]}}`)
	if _, err := m.api.CoreV1().Pods("default").Patch(t.Context(), "gated", types.StrategicMergePatchType, patch, metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	m.await("gated", "ready", ready)
}

func TestInitContainersRunInOrder(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("init", "sleep 600")
	always := v1.ContainerRestartPolicyAlways
	sh := func(name, script string) v1.Container {
		return v1.Container{Name: name, Image: "busybox:1", Command: []string{"/bin/sh", "-c", script}}
	}
	side := sh("side", "sleep 600")
	side.RestartPolicy = &always
	p.Spec.InitContainers = []v1.Container{sh("first", "exit 0"), side, sh("last", "sleep 0.05; exit 0")}
	m.create(p)
	got := m.await("init", "ready", ready)
	var started []string
	for _, c := range m.runtime.Calls() {
		if name, ok := strings.CutPrefix(c, "StartContainer init/"); ok {
			started = append(started, name)
		}
	}
	if want := []string{"first", "side", "last", "app"}; !slices.Equal(started, want) {
		t.Errorf("started %v, want %v", started, want)
	}
	for i, want := range []string{"done", "runs", "done"} {
		s := got.Status.InitContainerStatuses[i].State
		if is := map[bool]string{true: "runs", false: "done"}[s.Running != nil]; is != want {
			t.Errorf("init container %d %s, want %s", i, is, want)
		}
	}
}

func TestImagePullFailuresBackOff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.images.Remote = nil
	p := newPod("pull", "sleep 600")
	p.Spec.Containers[0].Image = "no image name"
	m.create(p)
	got := m.await("pull", "waiting", func(p *v1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) == 1 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == "InvalidImageName"
	})
	if got.Status.Phase != v1.PodPending {
		t.Errorf("phase %s", got.Status.Phase)
	}
}

func TestManyPodsAtOnce(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	const n = 40
	for i := range n {
		m.create(newPod(fmt.Sprintf("p%d", i), "sleep 600"))
	}
	for i := range n {
		m.await(fmt.Sprintf("p%d", i), "ready", ready)
	}
	for i := range n {
		m.terminate(fmt.Sprintf("p%d", i), 1)
	}
	for i := range n {
		m.awaitGone(fmt.Sprintf("p%d", i))
	}
	m.nothingLeft("uid-p")
}

func TestHooksRunAroundAContainersLife(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	shared := t.TempDir()
	p := newPod("hooked", "sleep 600")
	p.Spec.Volumes = []v1.Volume{{Name: "v", VolumeSource: v1.VolumeSource{HostPath: &v1.HostPathVolumeSource{Path: shared}}}}
	c := &p.Spec.Containers[0]
	c.VolumeMounts = []v1.VolumeMount{{Name: "v", MountPath: "/v"}}
	sh := func(script string) *v1.LifecycleHandler {
		return &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"sh", "-c", script}}}
	}
	c.Lifecycle = &v1.Lifecycle{PostStart: sh("echo up > /v/hooks"), PreStop: sh("echo down > /v/hooks")}
	m.create(p)
	m.await("hooked", "ready", ready)
	m.terminate("hooked", 5)
	m.awaitGone("hooked")
	got, err := os.ReadFile(filepath.Join(shared, "hooks"))
	if err != nil || string(got) != "up\ndown\n" {
		t.Errorf("hooks wrote %q, %v", got, err)
	}
}

func TestDeletionInterruptsAPull(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.images.Delay = time.Hour
	m.create(newPod("pulling", "sleep 600"))
	polltest.Until(t, "the image is pulled", func() bool { return len(m.images.Pulls()) > 0 })
	m.terminate("pulling", 30)
	m.awaitGone("pulling")
	m.nothingLeft("uid-pulling")
}

func TestMissingConfigMapIsWaitedFor(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("env", "sleep 600")
	p.Spec.Containers[0].EnvFrom = []v1.EnvFromSource{{ConfigMapRef: &v1.ConfigMapEnvSource{LocalObjectReference: v1.LocalObjectReference{Name: "absent"}}}}
	m.create(p)
	got := m.await("env", "waiting", func(p *v1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) == 1 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == "CreateContainerConfigError"
	})
	if msg := got.Status.ContainerStatuses[0].State.Waiting.Message; !strings.Contains(msg, `"absent" not found`) {
		t.Errorf("message %q", msg)
	}
}
