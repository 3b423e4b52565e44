package pod

import (
	"fmt"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// world plays the machine: it does what the core asks for at once, and lets
// containers end when the script says so.
type world struct {
	t   *testing.T
	now time.Time
	rec *Record
	ids int
	log []string
	// granting: the machine has what a resize asks for.
	granting bool
}

var start = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func newWorld(t *testing.T, p *v1.Pod) *world {
	return &world{t: t, now: start, rec: New(p, start), granting: true}
}

// settle carries out actions until nothing is due, and notes them.
func (w *world) settle() Action {
	w.t.Helper()
	for range 200 {
		a := w.rec.Next(w.now)
		if a.Kind == None {
			return a
		}
		w.log = append(w.log, strings.TrimSpace(fmt.Sprintf("%s %s", a.Kind, a.Container)))
		switch a.Kind {
		case SetUp:
			w.rec.Touched = true
			w.rec.DidSetUp()
		case StartSandbox:
			w.ids++
			w.rec.DidStartSandbox(fmt.Sprintf("s%d", w.ids), nil)
		case StartContainer:
			w.ids++
			w.rec.DidStart(a.Container, Run{ID: fmt.Sprintf("c%d", w.ids), StartedAt: w.now}, w.now)
		case Resize:
			if !w.granting {
				w.rec.DidNotResize(v1.PodReasonInfeasible, "too much", w.now)
				continue
			}
			w.rec.DidResize(w.rec.Pod, nil, nil)
		case StopContainer:
			w.exit(a.Container, 137)
		case StopAll:
			for name, c := range w.rec.Containers {
				if c.Phase == Running {
					w.exit(name, 143)
				}
			}
		case ResetSandbox:
			w.rec.DidResetSandbox(w.now)
		case TearDown:
			w.rec.DidTearDown(w.now)
		case Finish:
			return a
		}
	}
	w.t.Fatalf("the core never settles: %v", w.log)
	return Action{}
}

func (w *world) exit(name string, code int32) {
	w.rec.DidExit(name, Termination{ExitCode: code, FinishedAt: w.now})
}

func (w *world) pass(d time.Duration) { w.now = w.now.Add(d) }

func (w *world) expect(want ...string) {
	w.t.Helper()
	if got := strings.Join(w.log, ", "); got != strings.Join(want, ", ") {
		w.t.Errorf("did %q, want %q", got, strings.Join(want, ", "))
	}
	w.log = nil
}

func (w *world) status() v1.PodStatus {
	return w.rec.Status(Host{IPs: []string{"192.0.2.1"}, Runtime: "test"}, w.now)
}

func (w *world) phase(want v1.PodPhase) {
	w.t.Helper()
	if got := w.status().Phase; got != want {
		w.t.Errorf("phase %s, want %s", got, want)
	}
}

func (w *world) waits(reason string) {
	w.t.Helper()
	if s := w.status().ContainerStatuses[0].State.Waiting; s == nil || s.Reason != reason {
		w.t.Errorf("waiting %+v, want %s", s, reason)
	}
}

func podOf(policy v1.RestartPolicy, names ...string) *v1.Pod {
	p := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: "u", Generation: 4}, Spec: v1.PodSpec{RestartPolicy: policy}}
	for _, n := range names {
		c := v1.Container{Name: n, Image: "img"}
		always := v1.ContainerRestartPolicyAlways
		switch {
		case strings.HasPrefix(n, "init"):
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		case strings.HasPrefix(n, "side"):
			c.RestartPolicy = &always
			p.Spec.InitContainers = append(p.Spec.InitContainers, c)
		default:
			p.Spec.Containers = append(p.Spec.Containers, c)
		}
	}
	return p
}

func deleted(p *v1.Pod, grace int64) *v1.Pod {
	p = p.DeepCopy()
	at := metav1.NewTime(start.Add(time.Duration(grace) * time.Second))
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &at, &grace
	return p
}

func TestLifeOfAPod(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.phase(v1.PodPending)
	w.settle()
	w.expect("set up", "start sandbox", "start container app")
	w.phase(v1.PodRunning)
	w.rec.Update(deleted(w.rec.Pod, 30), w.now)
	w.settle()
	w.expect("stop all", "tear down", "finish")
	if st := w.status(); st.Phase != v1.PodFailed || st.ContainerStatuses[0].State.Terminated == nil {
		t.Errorf("last status %+v", st)
	}
}

func TestInitContainers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "init1", "side", "init2", "app"))
	w.settle()
	w.expect("set up", "start sandbox", "start container init1")
	w.phase(v1.PodPending)
	w.exit("init1", 0)
	w.settle()
	w.expect("start container side", "start container init2")
	w.exit("init2", 1)
	w.settle()
	w.expect("start container init2")
	w.exit("init2", 0)
	w.settle()
	w.expect("start container app")
	w.phase(v1.PodRunning)
	w.exit("side", 1)
	w.settle()
	w.expect("start container side")
}

func TestRejectedPodDoesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.rec.Rejected = &Verdict{Reason: "OutOfcpu", Message: "m"}
	w.settle()
	w.expect()
	if st := w.status(); st.Phase != v1.PodFailed || st.Reason != "OutOfcpu" || len(st.ContainerStatuses) != 0 {
		t.Errorf("status %+v", st)
	}
}

func TestReadyFollowsProbesAndGates(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyAlways, "app")
	p.Spec.Containers[0].ReadinessProbe = &v1.Probe{}
	p.Spec.ReadinessGates = []v1.PodReadinessGate{{ConditionType: "g"}}
	w := newWorld(t, p)
	w.settle()
	check := func(ready, containers v1.ConditionStatus, reason string) {
		t.Helper()
		st := w.status()
		r, c := condition(st, v1.PodReady), condition(st, v1.ContainersReady)
		if r.Status != ready || c.Status != containers || r.Reason != reason || r.ObservedGeneration != 4 {
			t.Errorf("Ready %+v, ContainersReady %s; want %s (%s), %s", r, c.Status, ready, reason, containers)
		}
	}
	check(v1.ConditionFalse, v1.ConditionFalse, "ContainersNotReady")
	w.rec.Probed("app", "c2", true, true, "")
	check(v1.ConditionFalse, v1.ConditionTrue, "ReadinessGatesNotReady")
	p = p.DeepCopy()
	p.Status.Conditions = []v1.PodCondition{{Type: "g", Status: v1.ConditionTrue}}
	w.rec.Update(p, w.now)
	w.pass(time.Minute)
	check(v1.ConditionTrue, v1.ConditionTrue, "")
	at := condition(w.status(), v1.PodReady).LastTransitionTime.Time
	w.pass(time.Minute)
	if again := condition(w.status(), v1.PodReady).LastTransitionTime.Time; !again.Equal(at) || !at.Equal(start.Add(time.Minute)) {
		t.Errorf("transition at %v, then %v", at, again)
	}
}

func condition(st v1.PodStatus, kind v1.PodConditionType) v1.PodCondition {
	for _, c := range st.Conditions {
		if c.Type == kind {
			return c
		}
	}
	return v1.PodCondition{}
}

func TestImageThatCannotBePulledWaits(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.rec.DidSetUp()
	w.rec.DidStartSandbox("s", nil)
	for _, want := range []time.Duration{10 * time.Second, 20 * time.Second, 40 * time.Second} {
		if a := w.rec.Next(w.now); a.Kind != StartContainer {
			t.Fatalf("action %+v", a)
		}
		w.rec.DidNotPull("app", "img:1", "ErrImagePull", "no", w.now)
		if a := w.rec.Next(w.now); a.Kind != None || a.Wake.Sub(w.now) != time.Second {
			t.Errorf("action %+v, want to look again in 1s", a)
		}
		w.waits("ErrImagePull")
		w.pass(time.Second)
		if a := w.rec.Next(w.now); a.Kind != None || a.Wake.Sub(w.now) != want-time.Second {
			t.Errorf("action %+v, want to wait %v in all", a, want)
		}
		w.waits("ImagePullBackOff")
		w.phase(v1.PodPending)
		w.pass(want - time.Second)
	}
}

// What was wrong with an image is not the fault of the next.
func TestACorrectedImageDoesNotWait(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.rec.DidSetUp()
	w.rec.DidStartSandbox("s", nil)
	correct := func(image string, res v1.ResourceRequirements) {
		t.Helper()
		p := w.rec.Pod.DeepCopy()
		p.Spec.Containers[0].Image, p.Spec.Containers[0].Resources = image, res
		w.rec.Update(p, w.now)
		a := w.rec.Next(w.now)
		if a.Kind == Resize {
			w.rec.DidResize(w.rec.Pod, nil, nil)
			a = w.rec.Next(w.now)
		}
		if a.Kind != StartContainer {
			t.Errorf("image %s, resources %v: action %+v", image, res, a)
		}
	}
	crash := func() {
		t.Helper()
		for range 3 {
			w.settle()
			w.exit("app", 1)
		}
		if a := w.rec.Next(w.now); a.Kind != None {
			t.Errorf("a container that crashes: action %+v", a)
		}
	}
	for range 3 {
		w.rec.DidNotPull("app", "img", "ErrImagePull", "no", w.now)
	}
	w.rec.Update(w.rec.Pod.DeepCopy(), w.now)
	if a := w.rec.Next(w.now); a.Kind != None {
		t.Errorf("the same image again: action %+v", a)
	}
	correct("img:2", v1.ResourceRequirements{})
	w.rec.DidNotPull("app", "img:2", "ErrImagePull", "no", w.now)
	w.pass(time.Second)
	if a := w.rec.Next(w.now); a.Wake.Sub(w.now) != 9*time.Second {
		t.Errorf("the first failure of another image: %+v, want to wait 10s in all", a)
	}
	correct("img:3", v1.ResourceRequirements{})
	crash()
	correct("img:4", v1.ResourceRequirements{})
	crash()
	correct("img:4", cpu("1"))
}

func TestFoundContainersAreAdopted(t *testing.T) {
	t.Parallel()
	w := newWorld(t, podOf(v1.RestartPolicyAlways, "app"))
	w.rec.Pod.Status.PodIPs = []v1.PodIP{{IP: "10.9.0.2"}}
	none := func(Spec, runtime.Container) string { return "" }
	left, _ := w.rec.Observe(runtime.Listing{
		Sandboxes: []runtime.Sandbox{{ID: "s", Attempt: 2, State: runtime.Running}},
		Containers: []runtime.Container{
			{ID: "a", SandboxID: "s", Name: "app", Attempt: 5, State: runtime.Running, StartedAt: start},
			{ID: "half", SandboxID: "s", Name: "app", Attempt: 6, State: runtime.Created},
		},
	}, none, w.now)
	w.settle()
	w.expect()
	if got := w.status().ContainerStatuses[0]; got.RestartCount != 5 || got.State.Running == nil || got.ContainerID != "test://a" {
		t.Errorf("container %+v", got)
	}
	if len(left) != 1 || left[0] != "half" {
		t.Errorf("leftovers %v, want the half-made one", left)
	}
}

// What is found of a pod that ends is taken over, or at least taken down, before the API
// forgets it.
func TestWhatIsFoundOfAPodThatEndsGoesFirst(t *testing.T) {
	t.Parallel()
	none := func(Spec, runtime.Container) string { return "" }
	for name, test := range map[string]struct {
		state runtime.State
		want  []string
	}{
		"its sandbox runs":  {runtime.Running, []string{"stop all", "tear down", "finish"}},
		"its sandbox ended": {runtime.Exited, []string{"tear down", "finish"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, deleted(podOf(v1.RestartPolicyAlways, "app"), 30))
			w.rec.Observe(runtime.Listing{
				Sandboxes:  []runtime.Sandbox{{ID: "s", Attempt: 2, State: test.state}},
				Containers: []runtime.Container{{ID: "a", SandboxID: "s", Name: "app", Attempt: 5, State: test.state, StartedAt: start}},
			}, none, w.now)
			w.settle()
			w.expect(test.want...)
		})
	}
}

func TestQOS(t *testing.T) {
	t.Parallel()
	list := func(pairs ...string) v1.ResourceList {
		out := v1.ResourceList{}
		for i := 0; i < len(pairs); i += 2 {
			out[v1.ResourceName(pairs[i])] = resource.MustParse(pairs[i+1])
		}
		return out
	}
	for name, test := range map[string]struct {
		requests, limits v1.ResourceList
		want             v1.PodQOSClass
	}{
		"nothing":              {nil, nil, v1.PodQOSBestEffort},
		"only requests":        {list("cpu", "1"), nil, v1.PodQOSBurstable},
		"limits alone":         {nil, list("cpu", "1", "memory", "1Gi"), v1.PodQOSGuaranteed},
		"requests are limits":  {list("cpu", "1", "memory", "1Gi"), list("cpu", "1", "memory", "1Gi"), v1.PodQOSGuaranteed},
		"requests below":       {list("cpu", "1", "memory", "1Gi"), list("cpu", "2", "memory", "1Gi"), v1.PodQOSBurstable},
		"only one limit":       {nil, list("cpu", "1"), v1.PodQOSBurstable},
		"an extended resource": {list("nvidia.com/gpu", "1"), list("nvidia.com/gpu", "1"), v1.PodQOSBestEffort},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podOf(v1.RestartPolicyAlways, "app")
			p.Spec.Containers[0].Resources = v1.ResourceRequirements{Requests: test.requests, Limits: test.limits}
			if got := QOS(p); got != test.want {
				t.Errorf("QOS = %s, want %s", got, test.want)
			}
		})
	}
}

func TestSandboxOfUnknownAddressIsMadeAnew(t *testing.T) {
	t.Parallel()
	none := func(Spec, runtime.Container) string { return "" }
	found := runtime.Listing{Sandboxes: []runtime.Sandbox{{ID: "s", State: runtime.Running}}}
	for _, tt := range []struct {
		name   string
		change func(*v1.Pod)
		want   ActionKind
	}{
		{"nobody knows its address", func(*v1.Pod) {}, ResetSandbox},
		{"the API was told its address", func(p *v1.Pod) { p.Status.PodIPs = []v1.PodIP{{IP: "10.9.0.2"}} }, StartContainer},
		{"it has the machine's", func(p *v1.Pod) { p.Spec.HostNetwork = true }, StartContainer},
	} {
		p := podOf(v1.RestartPolicyAlways, "app")
		tt.change(p)
		w := newWorld(t, p)
		w.rec.DidSetUp()
		w.rec.Sandbox.Dirty = true // as it is written down before a sandbox starts
		_, left := w.rec.Observe(found, none, w.now)
		if a := w.rec.Next(w.now); a.Kind != tt.want || (len(left) == 1) != (tt.want == ResetSandbox) {
			t.Errorf("%s: %+v, left over %q; want %s", tt.name, a, left, tt.want)
		}
	}
}

func TestAdoptedContainerCanBeResized(t *testing.T) {
	t.Parallel()
	p := podOf(v1.RestartPolicyAlways, "app")
	p.Spec.Containers[0].Resources = cpu("1")
	p.Spec.HostNetwork = true
	w := newWorld(t, p)
	w.rec.Observe(runtime.Listing{
		Sandboxes:  []runtime.Sandbox{{ID: "s", State: runtime.Running}},
		Containers: []runtime.Container{{ID: "c", SandboxID: "s", Name: "app", State: runtime.Running}},
	}, func(Spec, runtime.Container) string { return "" }, w.now)
	w.rec.ask("2", w.now)
	if a := w.rec.Next(w.now); a.Kind != Resize {
		t.Errorf("action %+v, want a resize", a)
	}
}
