package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"

	"github.com/berth-dev/berth/nodeagent/cgroup"
	"github.com/berth-dev/berth/nodeagent/image"
	imagefake "github.com/berth-dev/berth/nodeagent/image/fake"
	"github.com/berth-dev/berth/nodeagent/network"
	networkfake "github.com/berth-dev/berth/nodeagent/network/fake"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/runtime"
	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
	"github.com/berth-dev/berth/nodeagent/userns"
)

// bench is a pool over fakes, in a bubble of its own time.
type bench struct {
	t       *testing.T
	runtime *runtimefake.Runtime
	network *networkfake.Network
	images  *imagefake.Store
	pool    *Pool
	events  *record.FakeRecorder
	keep    *checkpoints
	status  *statuses
	stop    func()
}

// newBench starts a pool, which the test stops.
func newBench(t *testing.T, before func(*bench)) *bench {
	t.Helper()
	b := &bench{
		t: t, runtime: runtimefake.New(), network: networkfake.New(netip.MustParsePrefix("10.9.0.0/24")), images: imagefake.New(),
		events: record.NewFakeRecorder(1000), keep: &checkpoints{}, status: &statuses{},
	}
	root := t.TempDir()
	pulls, err := image.OpenPulls(filepath.Join(root, "pulls"))
	if err != nil {
		t.Fatal(err)
	}
	b.pool = NewPool(Deps{
		Runtime: b.runtime, Network: b.network, Images: b.images, Pulls: pulls, Volumes: nothing{}, Cgroups: cgroup.None{}, IDs: nothing{},
		Prober: probe.New(b.runtime, b.events), Objects: nothing{}, Status: b.status, Keep: b.keep, Recorder: b.events,
		Log: slog.New(slog.DiscardHandler), RootDir: root, Host: pod.Host{IPs: []string{"192.0.2.1"}, Runtime: "fake"},
		HostResolv: filepath.Join(root, "none"), HostHosts: filepath.Join(root, "none"),
	})
	if before != nil {
		before(b)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = b.pool.Run(ctx) // what ctx says
	}()
	b.stop = sync.OnceFunc(func() { cancel(); <-done })
	return b
}

// end stops the pool and what it left running, so that the bubble can end.
func (b *bench) end() {
	b.stop()
	all, err := b.runtime.List(context.Background())
	if err != nil {
		b.t.Fatal(err)
	}
	for _, s := range all.Sandboxes {
		if err := b.runtime.RemoveSandbox(context.Background(), s.ID); err != nil {
			b.t.Error(err)
		}
	}
}

// after lets so much time go by.
func (b *bench) after(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

func (b *bench) phase(name string) (phase v1.PodPhase) {
	b.pool.View("default", name, func(r *pod.Record) { phase = r.Status(pod.Host{}, time.Now()).Phase })
	return phase
}

func (b *bench) told(reason string) (n int) {
	for {
		select {
		case e := <-b.events.Events:
			if strings.Contains(e, " "+reason+" ") {
				n++
			}
		default:
			return n
		}
	}
}

func newPod(name string) *v1.Pod {
	no := false
	return &v1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID("uid-" + name), ResourceVersion: "1"},
		Spec: v1.PodSpec{
			NodeName: "n1", RestartPolicy: v1.RestartPolicyAlways, EnableServiceLinks: &no, DNSPolicy: v1.DNSDefault,
			Containers: []v1.Container{{Name: "app", Image: "busybox:1", Command: []string{"sh", "-c", "sleep 1000000"}, TerminationMessagePath: "/dev/termination-log"}},
		},
	}
}

func deleted(p *v1.Pod, grace int64) *v1.Pod {
	p = p.DeepCopy()
	at := metav1.Now()
	p.DeletionTimestamp, p.DeletionGracePeriodSeconds, p.ResourceVersion = &at, &grace, "2"
	return p
}

// checkpoints keeps records in memory.
type checkpoints struct {
	mu    sync.Mutex
	saved map[string][]byte
	saves int
	// hold is received from before a save ends, if set.
	hold chan struct{}
}

func (c *checkpoints) Save(uid string, data []byte) error {
	if c.hold != nil {
		<-c.hold
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.saved == nil {
		c.saved = map[string][]byte{}
	}
	c.saved[uid] = slices.Clone(data)
	c.saves++
	return nil
}

func (c *checkpoints) Remove(uid string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.saved, uid)
	return nil
}

// record is what a new agent would find.
func (c *checkpoints) record(t *testing.T, uid string) *pod.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := &pod.Record{}
	if data := c.saved[uid]; data != nil {
		if err := json.Unmarshal(data, r); err != nil {
			t.Error(err)
		}
	}
	return r
}

// statuses counts what the API was told last.
type statuses struct {
	mu    sync.Mutex
	final []string
	// told, unless nil, is called whenever the API is told of a pod's end.
	told func()
}

func (s *statuses) Forget(string) {}

func (s *statuses) Set(_ *v1.Pod, st v1.PodStatus) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if pod.Terminal(st.Phase) && s.told != nil {
		s.told()
	}
}

func (s *statuses) Final(_ context.Context, p *v1.Pod, st v1.PodStatus) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.final = append(s.final, p.Name+" "+string(st.Phase))
	if s.told != nil {
		s.told()
	}
	return nil
}

// A pod whose end the API knows of is in nobody's way: the scheduler gives its
// place away at once, and the next pod may be here before its worker has ended.
func TestAPodThatEndedMakesRoom(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		b.pool.Set(newPod("first"), nil)
		b.after(time.Second)
		var beside []string
		admit := func(active []*v1.Pod) *pod.Verdict {
			for _, p := range active {
				beside = append(beside, p.Name)
			}
			return nil
		}
		b.status.told = sync.OnceFunc(func() { b.pool.Set(newPod("second"), admit) })
		b.pool.Set(newPod("third"), admit)
		if len(beside) != 1 {
			t.Errorf("beside a pod that runs, %d hold resources, want 1", len(beside))
		}
		beside = nil
		b.pool.Set(deleted(newPod("first"), 5), nil)
		b.after(10 * time.Second)
		b.status.told = nil
		if len(beside) != 1 || beside[0] != "third" {
			t.Errorf("when first had ended, these held resources: %v", beside)
		}
		if got := b.phase("second"); got != v1.PodRunning {
			t.Errorf("the next pod is %s", got)
		}
	})
}

// nothing has no volumes, ids and objects.
type nothing struct{}

func (nothing) SetUp(context.Context, *v1.Pod, podspec.Facts) error   { return nil }
func (nothing) Refresh(context.Context, *v1.Pod, podspec.Facts) error { return nil }
func (nothing) TearDown(string) error                                 { return nil }
func (nothing) Take(string) (userns.Range, error)                     { return userns.Range{}, nil }
func (nothing) Release(string)                                        {}
func (nothing) Services(string) ([]*v1.Service, error)                { return nil, nil }

func (nothing) Mounts(*v1.Pod, *v1.Container, map[string]string, bool) ([]runtime.Mount, []runtime.Device, error) {
	return nil, nil, nil
}

func (nothing) EnvFile(*v1.Pod, string, string, string) (string, error) { return "", nil }

func (nothing) ConfigMap(_ context.Context, _, name string) (*v1.ConfigMap, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (nothing) Secret(_ context.Context, _, name string) (*v1.Secret, error) {
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "secrets"}, name)
}

func TestAPodRunsAndGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Second)
		if got := b.phase("web"); got != v1.PodRunning {
			t.Errorf("phase %s after %v", got, b.runtime.Calls())
		}
		b.pool.Set(deleted(newPod("web"), 5), nil)
		b.after(10 * time.Second)
		if b.pool.View("default", "web", func(*pod.Record) {}) || len(b.keep.saved) > 0 || b.network.Attached() > 0 {
			t.Error("the pod left something behind")
		}
		if got := strings.Join(b.status.final, ", "); !strings.HasPrefix(got, "web ") || len(b.status.final) != 1 {
			t.Errorf("the API was told %q at last", got)
		}
	})
}

// asked is a network that keeps whom it was to connect.
type asked struct {
	network.Network
	pods []network.Pod
}

func (a *asked) Add(ctx context.Context, p network.Pod) (network.Attachment, error) {
	a.pods = append(a.pods, p)
	return a.Network.Add(ctx, p)
}

func TestTheNetworkIsToldOfBandwidth(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var net *asked
		b := newBench(t, func(b *bench) {
			net = &asked{Network: b.network}
			b.pool.deps.Network = net
		})
		defer b.end()
		slow, wrong := newPod("slow"), newPod("wrong")
		slow.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "1M"}
		wrong.Annotations = map[string]string{"kubernetes.io/egress-bandwidth": "1"}
		b.pool.Set(slow, nil)
		b.pool.Set(wrong, nil)
		b.after(time.Second)
		if len(net.pods) != 1 || net.pods[0].Name != "slow" || net.pods[0].Ingress != 0 || net.pods[0].Egress != 1_000_000 {
			t.Errorf("asked to connect %+v, want slow with 1 Mbit/s out", net.pods)
		}
		if n := b.told("FailedCreatePodSandBox"); n == 0 {
			t.Error("nobody is told of an annotation that is out of reason")
		}
	})
}

// A pod's sandbox is of the runtime that its RuntimeClass names.
func TestASandboxIsOfItsClassesRuntime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) {
			b.pool.deps.Handler = func(_ context.Context, class string) (string, error) {
				if class == "vm" {
					return "kata", nil
				}
				return "", fmt.Errorf("RuntimeClass %q: not found", class)
			}
		})
		defer b.end()
		plain, vm, lost := newPod("plain"), newPod("vm"), newPod("lost")
		plain.Spec.RuntimeClassName, vm.Spec.RuntimeClassName, lost.Spec.RuntimeClassName = ptr.To(""), ptr.To("vm"), ptr.To("none")
		for _, p := range []*v1.Pod{plain, vm, lost} {
			b.pool.Set(p, nil)
		}
		b.after(time.Second)
		for p, want := range map[*v1.Pod]string{plain: "", vm: "kata", lost: ""} {
			if got := b.runtime.Sandbox(string(p.UID)).Handler; got != want {
				t.Errorf("the sandbox of %s is of %q, want %q", p.Name, got, want)
			}
		}
		if b.phase("vm") != v1.PodRunning || b.phase("lost") == v1.PodRunning {
			t.Errorf("vm is %s, lost is %s", b.phase("vm"), b.phase("lost"))
		}
		if n := b.told("FailedCreatePodSandBox"); n == 0 {
			t.Error("nobody is told of a class that is not there")
		}
	})
}

// TestWhatIsBegunIsWrittenDownBefore: who is killed in a step must know of it.
func TestWhatIsBegunIsWrittenDownBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) {
			b.runtime.Fail = func(method, _ string) error {
				if r := b.keep.record(t, "uid-web"); method == "RunSandbox" && (!r.Touched || !r.Sandbox.Dirty) {
					t.Errorf("before the sandbox starts, the record has touched %v, dirty %v", r.Touched, r.Sandbox.Dirty)
				}
				return nil
			}
		})
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Second)
		if r := b.keep.record(t, "uid-web"); r.Sandbox.ID == "" || r.Containers["app"].Phase != pod.Running {
			t.Errorf("written down: %+v", r)
		}
	})
}

func TestARecordIsWrittenWhenItChanged(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Second)
		saves := b.keep.saves
		b.after(10 * relistEvery)
		b.pool.Set(newPod("web"), nil)
		b.after(time.Second)
		if b.keep.saves != saves {
			t.Errorf("written %d times more though nothing happened", b.keep.saves-saves)
		}
	})
}

// TestTheDiskHoldsUpNobody: a record that is being written can be read, and
// changed.
func TestTheDiskHoldsUpNobody(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) { b.keep.hold = make(chan struct{}) })
		b.pool.Set(newPod("web"), nil)
		synctest.Wait() // the first save waits now
		seen := false
		go b.pool.View("default", "web", func(*pod.Record) { seen = true })
		go b.pool.Set(deleted(newPod("web"), 0), nil)
		synctest.Wait()
		b.pool.View("default", "web", func(r *pod.Record) {
			if !r.Terminating() {
				t.Error("the change waits for the disk")
			}
		})
		if !seen {
			t.Error("the look waits for the disk")
		}
		close(b.keep.hold)
		b.after(time.Minute)
		b.end()
	})
}

// TestADeletedPodDoesNotWaitForItsImage: the pull is cut short.
func TestADeletedPodDoesNotWaitForItsImage(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) { b.images.Delay = time.Hour })
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Minute)
		if pulls := b.images.Pulls(); len(pulls) != 1 {
			t.Fatalf("pulls %v", pulls)
		}
		b.pool.Set(deleted(newPod("web"), 30), nil)
		b.after(5 * time.Second)
		if len(b.status.final) != 1 || b.network.Attached() > 0 {
			t.Errorf("after 5 s: final %v, %d networks, calls %v", b.status.final, b.network.Attached(), b.runtime.Calls())
		}
	})
}

// TestWhatFailsIsTriedMoreSlowly, and each time somebody is told.
func TestWhatFailsIsTriedMoreSlowly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var tries []time.Time
		b := newBench(t, func(b *bench) {
			b.runtime.Fail = func(method, _ string) error {
				if method != "RunSandbox" {
					return nil
				}
				if tries = append(tries, time.Now()); len(tries) < 4 {
					return errors.New("no room")
				}
				return nil
			}
		})
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(10 * time.Minute)
		if len(tries) != 4 || b.phase("web") != v1.PodRunning {
			t.Fatalf("%d tries, phase %s", len(tries), b.phase("web"))
		}
		if n := b.told("FailedCreatePodSandBox"); n != 3 {
			t.Errorf("told %d times", n)
		}
		for i := 2; i < len(tries); i++ {
			if tries[i].Sub(tries[i-1]) < tries[i-1].Sub(tries[i-2]) {
				t.Errorf("tries at %v: not more slowly", tries)
			}
		}
	})
}

// TestWhatAnEarlierLifeLeftIsRemoved: a container that no record tells of is
// ended, and its pod started anew.
func TestWhatAnEarlierLifeLeftIsRemoved(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		meta := runtime.PodMeta{Namespace: "default", Name: "web", UID: "uid-web"}
		b := newBench(t, func(b *bench) {
			for attempt := range uint32(2) {
				if _, err := b.runtime.RunSandbox(t.Context(), runtime.SandboxConfig{Pod: meta, Attempt: attempt}); err != nil {
					t.Fatal(err)
				}
			}
		})
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Minute)
		all, err := b.runtime.List(t.Context())
		if err != nil || len(all.Sandboxes) != 1 || len(all.Containers) != 1 || b.phase("web") != v1.PodRunning {
			t.Errorf("%d sandboxes, %d containers, phase %s, %v", len(all.Sandboxes), len(all.Containers), b.phase("web"), err)
		}
	})
}

// TestContainersOutliveTheirWorkers, and are taken over by the next ones.
func TestContainersOutliveTheirWorkers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		b.pool.Set(newPod("web"), nil)
		b.after(time.Second)
		b.stop()
		calls := len(b.runtime.Calls())
		next := NewPool(b.pool.deps)
		next.Adopt([]*pod.Record{b.keep.record(t, "uid-web")})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- next.Run(ctx) }()
		b.after(time.Minute)
		if got := b.runtime.Calls()[calls:]; len(got) > 0 {
			t.Errorf("the next pool did %v to a pod that runs", got)
		}
		cancel()
		<-done
	})
}

// TestARefusedPodNeverRuns, and is told of as failed.
func TestARefusedPodNeverRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		b.pool.Set(newPod("web"), func([]*v1.Pod) *pod.Verdict { return &pod.Verdict{Reason: "OutOfcpu", Message: "no CPU"} })
		b.after(time.Minute)
		if got, calls := b.phase("web"), b.runtime.Calls(); got != v1.PodFailed || len(calls) > 0 {
			t.Errorf("phase %s, calls %v", got, calls)
		}
	})
}

// late takes a while to listen.
type late struct{ *runtimefake.Runtime }

func (l late) Events(ctx context.Context) (<-chan runtime.Event, error) {
	time.Sleep(time.Second)
	return l.Runtime.Events(ctx)
}

// TestAnEndBeforeAnybodyListensIsSeen: the pods of an agent that starts do not
// wait for the next look that the clock makes due.
func TestAnEndBeforeAnybodyListensIsSeen(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, func(b *bench) {
			b.pool.deps.Runtime = late{b.runtime}
			p := newPod("web")
			p.Spec.InitContainers = []v1.Container{{Name: "first", Image: "busybox:1", Command: []string{"sh", "-c", "exit 0"}}}
			b.pool.Set(p, nil)
		})
		defer b.end()
		b.after(3 * time.Second)
		if got := b.phase("web"); got != v1.PodRunning {
			t.Errorf("phase %s 3 s after the start", got)
		}
	})
}

func TestADeadlineIsTold(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		p := newPod("web")
		seconds := int64(60)
		p.Spec.ActiveDeadlineSeconds = &seconds
		b.pool.Set(p, nil)
		b.after(2 * time.Minute)
		if n := b.told("DeadlineExceeded"); n != 1 || b.phase("web") != v1.PodFailed {
			t.Errorf("told %d times, phase %s", n, b.phase("web"))
		}
	})
}

func TestAStatusTellsWhoAContainerRunsAs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t, nil)
		defer b.end()
		p := newPod("web")
		uid, gid := int64(1000), int64(2000)
		p.Spec.SecurityContext = &v1.PodSecurityContext{RunAsUser: &uid, RunAsGroup: &gid, SupplementalGroups: []int64{3000}}
		b.pool.Set(p, nil)
		b.after(time.Second)
		b.pool.View("default", "web", func(r *pod.Record) {
			u := r.Status(pod.Host{}, time.Now()).ContainerStatuses[0].User
			if u == nil || u.Linux == nil || u.Linux.UID != uid || u.Linux.GID != gid || !slices.Equal(u.Linux.SupplementalGroups, []int64{3000}) {
				t.Errorf("user = %+v", u)
			}
		})
	})
}
