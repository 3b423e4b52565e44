package pod

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

func cpu(requests string) v1.ResourceRequirements {
	return v1.ResourceRequirements{Requests: v1.ResourceList{v1.ResourceCPU: resource.MustParse(requests)}}
}

// sized is a record of a pod that runs one container with a CPU request.
func sized(now time.Time, policy ...v1.ContainerResizePolicy) *Record {
	p := &v1.Pod{Spec: v1.PodSpec{RestartPolicy: v1.RestartPolicyOnFailure, Containers: []v1.Container{{Name: "c", Image: "i", Resources: cpu("1"), ResizePolicy: policy}}}}
	p.Generation = 1
	r := New(p, now)
	r.DidSetUp()
	r.DidStartSandbox("s", nil)
	r.Initialized = true
	has := cpu("1")
	r.DidStart("c", Run{ID: "c1", StartedAt: now, Resources: &has}, now)
	return r
}

// ask changes the spec as the resize subresource does.
func (r *Record) ask(request string, now time.Time) {
	p := r.Pod.DeepCopy()
	p.Generation++
	p.Spec.Containers[0].Resources = cpu(request)
	r.Update(p, now)
}

func (r *Record) says(t v1.PodConditionType) (reason string, said bool) {
	for _, c := range r.Status(Host{}, time.Now()).Conditions {
		if c.Type == t {
			return c.Reason, true
		}
	}
	return "", false
}

func TestResize(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now)
	if a := r.Next(now); a.Kind != None {
		t.Fatalf("Next() = %v, want nothing: the spec is in force", a.Kind)
	}
	r.ask("2", now)
	if a := r.Next(now); a.Kind != Resize {
		t.Fatalf("Next() = %v, want %v", a.Kind, Resize)
	}
	if _, said := r.says(v1.PodResizeInProgress); !said {
		t.Error("nobody is told that the resize is under way")
	}
	r.DidNotResize(v1.PodReasonDeferred, "others have it", now)
	if a := r.Next(now); a.Kind != None || !a.Wake.Equal(now.Add(resizeAgain)) {
		t.Errorf("Next() of a deferred resize = %v at %v, want another look in %v", a.Kind, a.Wake, resizeAgain)
	}
	if reason, _ := r.says(v1.PodResizePending); reason != v1.PodReasonDeferred {
		t.Errorf("PodResizePending says %q, want %q", reason, v1.PodReasonDeferred)
	}
	if a := r.Next(now.Add(resizeAgain)); a.Kind != Resize {
		t.Errorf("Next() after a while = %v, want %v", a.Kind, Resize)
	}
	r.DidNotResize(v1.PodReasonInfeasible, "no machine has it", now)
	if a := r.Next(now.Add(time.Hour)); a.Kind != None || !a.Wake.IsZero() {
		t.Errorf("Next() of an infeasible resize = %v at %v, want none until the spec changes", a.Kind, a.Wake)
	}
	if got := r.Status(Host{}, now).ContainerStatuses[0].AllocatedResources.Cpu().String(); got != "1" {
		t.Errorf("allocated = %s, want the 1 that is in force", got)
	}
	r.ask("3", now)
	if a := r.Next(now); a.Kind != Resize {
		t.Fatalf("Next() of another spec = %v, want %v", a.Kind, Resize)
	}
	r.DidResize(r.Pod, []string{"c"}, nil)
	if a := r.Next(now); a.Kind != None {
		t.Errorf("Next() of a resized pod = %v, want nothing", a.Kind)
	}
	if _, said := r.says(v1.PodResizePending); said {
		t.Error("a resize is still pending")
	}
	if got := r.Status(Host{}, now).ContainerStatuses[0].AllocatedResources.Cpu().String(); got != "3" {
		t.Errorf("allocated = %s, want 3", got)
	}
}

// TestInitContainersAreResized while they run, sidecars and others; one that has ended
// still counts against the machine.
func TestInitContainersAreResized(t *testing.T) {
	t.Parallel()
	for name, policy := range map[string]*v1.ContainerRestartPolicy{"sidecar": new(v1.ContainerRestartPolicyAlways), "init container": nil} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			now := time.Now()
			r := New(&v1.Pod{Spec: v1.PodSpec{
				InitContainers: []v1.Container{{Name: "i", Image: "i", Resources: cpu("1"), RestartPolicy: policy}},
				Containers:     []v1.Container{{Name: "c", Image: "i"}},
			}}, now)
			r.DidSetUp()
			r.DidStartSandbox("s", nil)
			has := cpu("1")
			r.DidStart("i", Run{ID: "i1", StartedAt: now, Resources: &has}, now)
			p := r.Pod.DeepCopy()
			p.Generation++
			p.Spec.InitContainers[0].Resources = cpu("2")
			r.Update(p, now)
			if got := r.Holds().Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "1" {
				t.Errorf("it holds %s before it is resized, want the 1 that is in force", got)
			}
			if a := r.Next(now); a.Kind != Resize {
				t.Fatalf("Next() = %v, want %v", a.Kind, Resize)
			}
			r.DidResize(r.Pod, []string{"i"}, nil)
			if got := r.Status(Host{}, now).InitContainerStatuses[0].AllocatedResources.Cpu().String(); got != "2" {
				t.Errorf("allocated = %s, want 2", got)
			}
			p = p.DeepCopy()
			p.Generation++
			p.Spec.InitContainers[0].Resources = cpu("3")
			r.DidExit("i", Termination{ID: "i1", FinishedAt: now})
			r.Update(p, now)
			if got := r.Holds().Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "2" {
				t.Errorf("it holds %s, want the 2 that were granted", got)
			}
			if a := r.Next(now); a.Kind != Resize {
				t.Errorf("Next() = %v, want %v", a.Kind, Resize)
			}
			r.DidResize(r.Pod, nil, nil)
			if got := r.Holds().Spec.InitContainers[0].Resources.Requests.Cpu().String(); got != "3" {
				t.Errorf("it holds %s, want the 3 that were granted", got)
			}
		})
	}
}

func TestResizeByStartingAnew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now, v1.ContainerResizePolicy{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer})
	r.ask("2", now)
	if c, _ := r.Spec("c"); r.Next(now).Kind != Resize || !c.RestartsFor(r.Containers["c"].Applied) {
		t.Fatal("a policy that wants a start anew is not seen")
	}
	r.DidResize(r.Pod, nil, []string{"c"})
	if a := r.Next(now); a.Kind != StopContainer || a.Container != "c" {
		t.Fatalf("Next() = %v %s, want the container to stop", a.Kind, a.Container)
	}
	// It ends well, upon which a pod of this policy would be over.
	r.DidExit("c", Termination{ID: "c1", FinishedAt: now})
	if a := r.Next(now.Add(time.Minute)); a.Kind != StartContainer {
		t.Fatalf("Next() = %v, want a start anew", a.Kind)
	}
	has := cpu("2")
	r.DidStart("c", Run{ID: "c2", StartedAt: now, Resources: &has}, now)
	if a := r.Next(now); a.Kind != None {
		t.Errorf("Next() = %v, want nothing: it has what the spec asks for", a.Kind)
	}
}

func TestAResizeThatIsNotGrantedHoldsNothing(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now)
	held := func() int64 { return r.Holds().Spec.Containers[0].Resources.Requests.Cpu().MilliValue() }
	if held() != 1000 || r.Holds() != r.Pod {
		t.Errorf("a pod at rest holds %d", held())
	}
	r.ask("100", now)
	r.DidNotResize(v1.PodReasonInfeasible, "too much", now)
	if held() != 1000 {
		t.Errorf("a pod that can not grow holds %d, want what it has", held())
	}
	r.ask("2", now)
	r.DidResize(r.Pod, []string{"c"}, nil)
	if held() != 2000 {
		t.Errorf("a pod that has grown holds %d", held())
	}
}

func TestAPodIsResizedAsAWhole(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now)
	ask := func(request string) {
		p, whole := r.Pod.DeepCopy(), cpu(request)
		p.Generation++
		p.Spec.Resources = &whole
		r.Update(p, now)
	}
	shows := func(want string) {
		t.Helper()
		st := r.Status(Host{}, now)
		if st.Resources == nil || st.Resources.Requests.Cpu().String() != want || st.AllocatedResources.Cpu().String() != want {
			t.Errorf("the status has resources %+v, allocated %v; want %s", st.Resources, st.AllocatedResources, want)
		}
		if got := r.Holds().Spec.Resources; got != nil && got.Requests.Cpu().String() != want {
			t.Errorf("it holds %v, want %s", got.Requests, want)
		}
	}
	if st := r.Status(Host{}, now); st.Resources != nil || st.AllocatedResources != nil {
		t.Errorf("a pod without resources of its own has %+v, %v in its status", st.Resources, st.AllocatedResources)
	}
	ask("2")
	if a := r.Next(now); a.Kind != Resize {
		t.Fatalf("Next() = %v, want %v", a.Kind, Resize)
	}
	if _, said := r.says(v1.PodResizeInProgress); !said {
		t.Error("nobody is told that the resize is under way")
	}
	shows("1") // what its container asks for
	r.DidResize(r.Pod, nil, nil)
	if a := r.Next(now); a.Kind != None {
		t.Errorf("Next() of a resized pod = %v", a.Kind)
	}
	shows("2")
	ask("3")
	r.DidNotResize(v1.PodReasonDeferred, "others have it", now)
	if a := r.Next(now); a.Kind != None || !a.Wake.Equal(now.Add(resizeAgain)) {
		t.Errorf("Next() of a deferred resize = %v at %v", a.Kind, a.Wake)
	}
	shows("2")
}

// A resize is granted or not before a container starts, not by its start.
func TestAResizeIsDecidedWhileNothingRuns(t *testing.T) {
	t.Parallel()
	for name, before := range map[string]func(w *world){
		"nothing is set up": func(*world) {},
		"its image could not be pulled": func(w *world) {
			w.rec.DidSetUp()
			w.rec.DidStartSandbox("s", nil)
			w.rec.DidNotPull("app", "img", "ErrImagePull", "no", w.now)
		},
		"it has ended": func(w *world) { w.settle(); w.exit("app", 1) },
		"it is in back-off": func(w *world) {
			for range 2 {
				w.settle()
				w.exit("app", 1)
			}
			w.settle()
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := podOf(v1.RestartPolicyAlways, "app")
			p.Spec.Containers[0].Resources = cpu("1")
			w := newWorld(t, p)
			before(w)
			holds := func(want string) {
				t.Helper()
				if got := w.rec.Holds().Spec.Containers[0].Resources.Requests.Cpu().String(); got != want {
					t.Errorf("it holds %s, want %s", got, want)
				}
				if got := w.status().ContainerStatuses[0].AllocatedResources.Cpu().String(); got != want {
					t.Errorf("allocated = %s, want %s", got, want)
				}
			}
			w.rec.ask("1000", w.now)
			holds("1")
			w.granting = false
			w.log = nil
			w.pass(time.Minute)
			w.settle()
			if did := strings.Join(w.log, ", "); !strings.HasSuffix(did, "resize, start container app") {
				t.Errorf("did %q, want it asked for first, and a start all the same", did)
			}
			holds("1")
			w.exit("app", 1)
			w.granting = true
			w.rec.ask("2", w.now)
			w.settle()
			holds("2")
			if _, said := w.rec.says(v1.PodResizeInProgress); said {
				t.Error("a resize is still under way")
			}
		})
	}
}

// What was granted outlives the agent.
func TestAGrantIsKept(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now)
	r.ask("100", now)
	data, err := json.Marshal(r)
	if err != nil {
		t.Fatal(err)
	}
	again := &Record{}
	if err := json.Unmarshal(data, again); err != nil {
		t.Fatal(err)
	}
	again.Update(again.Pod, now)
	if got := again.Holds().Spec.Containers[0].Resources.Requests.Cpu().String(); got != "1" || again.Next(now).Kind != Resize {
		t.Errorf("it holds %s, next is %v; want 1, a resize", got, again.Next(now).Kind)
	}
}

// One that is to start anew for a resize does so with what was granted, and not at all
// if it is to have again what it has.
func TestAResizeIsTakenBackBeforeItStartsAnew(t *testing.T) {
	t.Parallel()
	now := time.Now()
	r := sized(now, v1.ContainerResizePolicy{ResourceName: v1.ResourceCPU, RestartPolicy: v1.RestartContainer})
	r.ask("2", now)
	r.DidResize(r.Pod, nil, []string{"c"})
	r.ask("100", now)
	r.DidNotResize(v1.PodReasonInfeasible, "too much", now)
	if a := r.Next(now); a.Kind != StopContainer {
		t.Errorf("Next() = %v, want it to stop for the 2 that it was granted", a.Kind)
	}
	r.ask("1", now)
	if a := r.Next(now); a.Kind != Resize {
		t.Fatalf("Next() = %v, want %v", a.Kind, Resize)
	}
	r.DidResize(r.Pod, nil, nil)
	if a := r.Next(now); a.Kind != None {
		t.Errorf("Next() = %v, want nothing: it has what the spec asks for", a.Kind)
	}
	r.DidExit("c", Termination{FinishedAt: now})
	if !r.Finished() {
		t.Error("it starts anew for a resize that was taken back")
	}
}
