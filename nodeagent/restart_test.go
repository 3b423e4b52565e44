package nodeagent_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

func TestFailedPodKeepsItsStatus(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("job", "echo why > /dev/termination-log; exit 3")
	p.Spec.RestartPolicy = v1.RestartPolicyNever
	m.create(p)
	got := m.await("job", "failed", func(p *v1.Pod) bool { return p.Status.Phase == v1.PodFailed })
	end := got.Status.ContainerStatuses[0].State.Terminated
	if end == nil || end.ExitCode != 3 || end.Reason != "Error" || end.Message != "why\n" {
		t.Errorf("state %+v", got.Status.ContainerStatuses[0].State)
	}
}

func TestCrashingContainerRestartsWithBackoff(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("crash", "exit 1"))
	got := m.await("crash", "in back-off", func(p *v1.Pod) bool {
		cs := p.Status.ContainerStatuses
		return len(cs) == 1 && cs[0].State.Waiting != nil && cs[0].State.Waiting.Reason == "CrashLoopBackOff"
	})
	cs := got.Status.ContainerStatuses[0]
	if cs.RestartCount != 1 || cs.LastTerminationState.Terminated == nil || got.Status.Phase != v1.PodRunning {
		t.Errorf("phase %s, container %+v", got.Status.Phase, cs)
	}
	m.terminate("crash", 1)
	m.awaitGone("crash")
	m.nothingLeft("uid-crash")
}

func TestRestartedAgentLeavesPodsAlone(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "sleep 600"))
	before := m.await("web", "ready", ready)
	calls := len(m.runtime.Calls())
	m.stop()
	m.start()
	m.create(newPod("next", "sleep 600"))
	m.await("next", "ready", ready)
	after := m.await("web", "ready", ready)
	if b, a := before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID; a != b {
		t.Errorf("container %s became %s", b, a)
	}
	for _, c := range m.runtime.Calls()[calls:] {
		if strings.Contains(c, "web") {
			t.Errorf("after the restart: %s", c)
		}
	}
	m.terminate("web", 1)
	m.awaitGone("web")
}

func TestAgentFindsPodsAgainWithoutItsRecords(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "sleep 600"))
	before := m.await("web", "ready", ready)
	m.stop()
	if err := os.RemoveAll(filepath.Join(m.root, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	m.start()
	m.create(newPod("next", "sleep 600"))
	m.await("next", "ready", ready)
	after := m.await("web", "ready", ready)
	if b, a := before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID; a != b {
		t.Errorf("container %s became %s", b, a)
	}
}

func TestAgentWaitsForARuntimeThatFails(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "sleep 600"))
	before := m.await("web", "ready", ready)
	m.stop()
	if err := os.RemoveAll(filepath.Join(m.root, "checkpoints")); err != nil {
		t.Fatal(err)
	}
	var asked atomic.Int32
	m.runtime.Fail = func(method, _ string) error {
		if method == "List" && asked.Add(1) <= 2 {
			return errors.New("containerd is starting")
		}
		return nil
	}
	m.start()
	m.create(newPod("next", "sleep 600"))
	m.await("next", "ready", ready)
	after := m.await("web", "ready", ready)
	if b, a := before.Status.ContainerStatuses[0].ContainerID, after.Status.ContainerStatuses[0].ContainerID; a != b {
		t.Errorf("container %s became %s", b, a)
	}
}

// orphan leaves what a pod has on the machine, of which neither the API nor the next
// agent knows.
func (m *machine) orphan(name string) {
	m.t.Helper()
	m.create(newPod(name, "sleep 600"))
	m.await(name, "ready", ready)
	m.stop()
	if err := m.api.CoreV1().Pods("default").Delete(m.t.Context(), name, metav1.DeleteOptions{}); err != nil {
		m.t.Fatal(err)
	}
	if err := os.RemoveAll(filepath.Join(m.root, "checkpoints")); err != nil {
		m.t.Fatal(err)
	}
}

func TestOrphansAreSweptAtStart(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.orphan("web")
	m.start()
	m.nothingLeft("uid-web")
}

// A pod that comes while what a crash left is removed keeps what it made.
func TestAPodThatComesDuringTheSweepKeepsWhatItHas(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.orphan("web")
	var once sync.Once
	m.runtime.Fail = func(method, _ string) error {
		if method == "StopSandbox" {
			once.Do(func() {
				p := newPod("late", "sleep 600")
				p.Spec.Volumes = []v1.Volume{{Name: "data", VolumeSource: v1.VolumeSource{EmptyDir: &v1.EmptyDirVolumeSource{}}}}
				m.create(p)
				m.await("late", "ready", ready)
			})
		}
		return nil
	}
	m.start()
	swept := polltest.Within(time.Minute, func() bool {
		_, err := os.Stat(filepath.Join(m.root, "pods", "uid-web"))
		return os.IsNotExist(err)
	})
	if _, err := os.Stat(filepath.Join(m.root, "pods", "uid-late", "volumes", "data")); err != nil || !swept {
		t.Errorf("its volume: %v; what the crash left is gone: %v", err, swept)
	}
	if n := m.network.Attached(); n != 1 {
		t.Errorf("%d networks, want its own", n)
	}
}

func TestContainerThatDiesOutsideIsRestarted(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "sleep 600"))
	p := m.await("web", "ready", ready)
	m.runtime.Crash(strings.TrimPrefix(p.Status.ContainerStatuses[0].ContainerID, "fake://"), 137, true)
	got := m.await("web", "restarted", func(p *v1.Pod) bool {
		return p.Status.ContainerStatuses[0].RestartCount == 1 && ready(p)
	})
	if last := got.Status.ContainerStatuses[0].LastTerminationState.Terminated; last == nil || last.Reason != "OOMKilled" || last.ExitCode != 137 {
		t.Errorf("last state %+v", last)
	}
}

func TestSandboxThatDiesIsReplaced(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	m.create(newPod("web", "sleep 600"))
	m.await("web", "ready", ready)
	list, err := m.runtime.List(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	m.runtime.Crash(list.Sandboxes[0].ID, 0, false)
	m.await("web", "restarted", func(p *v1.Pod) bool { return p.Status.ContainerStatuses[0].RestartCount == 1 && ready(p) })
	list, err = m.runtime.List(t.Context())
	if err != nil || len(list.Sandboxes) != 1 || list.Sandboxes[0].Attempt != 1 || list.Sandboxes[0].State != runtime.Running {
		t.Errorf("sandboxes %+v, %v", list.Sandboxes, err)
	}
	if n := m.network.Attached(); n != 1 {
		t.Errorf("%d networks, want 1", n)
	}
}

func TestPreStopCountsAgainstTheGrace(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("slow", "trap x; sleep 600")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PreStop: &v1.LifecycleHandler{Sleep: &v1.SleepAction{Seconds: 60}}}
	m.create(p)
	m.await("slow", "ready", ready)
	began := time.Now()
	m.terminate("slow", 1)
	m.awaitGone("slow")
	if took := time.Since(began); took < time.Second || took > 40*time.Second {
		t.Errorf("the end took %v, want the grace of 1s and the least of 2s, not the hook's 60s", took)
	}
	m.nothingLeft("uid-slow")
}

func TestFailedPostStartHookRestartsTheContainer(t *testing.T) {
	t.Parallel()
	m := newMachine(t)
	p := newPod("hooked", "sleep 600")
	p.Spec.Containers[0].Lifecycle = &v1.Lifecycle{PostStart: &v1.LifecycleHandler{Exec: &v1.ExecAction{Command: []string{"false"}}}}
	m.create(p)
	m.await("hooked", "restarted", func(p *v1.Pod) bool {
		return len(p.Status.ContainerStatuses) == 1 && p.Status.ContainerStatuses[0].RestartCount >= 1
	})
}
