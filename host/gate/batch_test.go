package gate

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

const madeGate v1.PodConditionType = "example.test/gate"

// run runs a driver over gated pods while do does something, in a time of its own.
func run(t *testing.T, pods []*v1.Pod, change func(*Config), do func(*store.Store)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t)
		for _, p := range pods {
			put(t, s, p)
		}
		cfg := Config{Objects: s, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
		change(&cfg)
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- New(cfg).Run(ctx) }()
		synctest.Wait()
		do(s)
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func conditionOf(s *store.Store, pod string, kind v1.PodConditionType) (found v1.PodCondition) {
	o, ok := s.Get(store.Key{Resource: "pods", Namespace: "default", Name: pod})
	if !ok {
		return found
	}
	for _, c := range o.(*v1.Pod).Status.Conditions {
		if c.Type == kind {
			found = c
		}
	}
	return found
}

func claimed(by map[v1.PodConditionType]Checker) func() map[v1.PodConditionType]Checker {
	return func() map[v1.PodConditionType]Checker { return by }
}

func answering(status string) func(int32, *wire.GatePod) (abi.Readiness, error) {
	return func(int32, *wire.GatePod) (abi.Readiness, error) { return abi.Readiness{Status: status}, nil }
}

// A guest may say that it wants to be asked again at once, and something else
// each time: it may not keep the host busy, nor the store.
func TestACheckerThatIsNeverContentIsAskedNowAndThen(t *testing.T) {
	t.Parallel()
	c := &checker{judge: func(asked int32, _ *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{Status: "False", Message: strconv.Itoa(int(asked)), RequeueAfterNanos: 1}, nil
	}}
	run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
	}, func(*store.Store) { time.Sleep(time.Minute) })
	if n := c.asked.Load(); n < 30 || n > 100 {
		t.Errorf("it was asked %d times in a minute, want about once a second", n)
	}
}

// Endpoints that do not answer hold up their own checker, not the others.
func TestASlowObservationHoldsUpNoOtherChecker(t *testing.T) {
	t.Parallel()
	slow := &checker{wants: []abi.Observe{{Name: "slow", Kind: "http", Port: "80"}}, judge: answering("True")}
	quick := &checker{judge: answering("True")}
	var pods []*v1.Pod
	for i := range 300 {
		pods = append(pods, gatedPod("slow-"+strconv.Itoa(i), "slow"))
	}
	pods = append(pods, gatedPod("web", madeGate))
	run(t, pods, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: quick, "slow": slow})
		cfg.Observe = func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
			time.Sleep(10 * time.Second)
			return nil
		}
	}, func(s *store.Store) {
		time.Sleep(time.Second)
		if got := conditionOf(s, "web", madeGate); got.Status != v1.ConditionTrue {
			t.Errorf("after a second the condition is %q", got.Status)
		}
	})
}

// A swap in the midst of an observation closes the checker that waits for it.
// That is no failure: the next one is asked, and nobody sees Unknown.
func TestACheckerThatIsSwappedWhileTheHostObservesIsNotUnknown(t *testing.T) {
	t.Parallel()
	gone := &checker{wants: []abi.Observe{{Name: "slow", Kind: "http", Port: "80"}}, judge: func(int32, *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{}, errors.New("closed")
	}}
	next := &checker{wants: gone.wants, judge: answering("True")}
	var live atomic.Pointer[checker]
	live.Store(gone)
	var swapped chan struct{}
	run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
		swapped = make(chan struct{}, 1)
		cfg.Swapped = swapped
		cfg.Checkers = func() map[v1.PodConditionType]Checker {
			return map[v1.PodConditionType]Checker{madeGate: live.Load()}
		}
		cfg.Observe = func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
			time.Sleep(5 * time.Second)
			return nil
		}
	}, func(s *store.Store) {
		time.Sleep(time.Second)
		live.Store(next)
		swapped <- struct{}{}
		for range 30 {
			time.Sleep(time.Second)
			synctest.Wait()
			if got := conditionOf(s, "web", madeGate); got.Status == v1.ConditionUnknown {
				t.Fatalf("condition = %+v", got)
			}
		}
		if got := conditionOf(s, "web", madeGate); got.Status != v1.ConditionTrue {
			t.Errorf("condition = %+v, want the new checker's", got)
		}
	})
}

// The SPEC says that a guest is asked when an observation changes: the host has
// to look again for that, whatever the guest said, and to ask no more often.
func TestACheckerIsAskedWhenAnObservationChanges(t *testing.T) {
	t.Parallel()
	var open atomic.Bool
	c := &checker{wants: []abi.Observe{{Name: "page", Kind: "http", Port: "80"}}, judge: func(_ int32, p *wire.GatePod) (abi.Readiness, error) {
		if p.Observed[0].OK {
			return abi.Readiness{Status: "True"}, nil
		}
		return abi.Readiness{Status: "False"}, nil
	}}
	run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
		cfg.Observe = func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
			return []wire.Observation{{Name: "page", OK: open.Load(), At: time.Now().UnixNano()}}
		}
	}, func(s *store.Store) {
		time.Sleep(time.Minute)
		if n := c.asked.Load(); n > 3 {
			t.Errorf("it was asked %d times though nothing changed", n)
		}
		open.Store(true)
		time.Sleep(15 * time.Second)
		if got := conditionOf(s, "web", madeGate); got.Status != v1.ConditionTrue {
			t.Errorf("15 s after the page came the condition is %s", got.Status)
		}
	})
}

// A pod that leaves while the host looks at it leaves nothing behind.
func TestAPodThatIsDeletedWhileItIsObservedIsForgotten(t *testing.T) {
	t.Parallel()
	c := &checker{wants: []abi.Observe{{Name: "slow", Kind: "http", Port: "80"}}, judge: func(int32, *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{Status: "False", RequeueAfterNanos: int64(time.Second)}, nil
	}}
	run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
		cfg.Observe = func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
			time.Sleep(5 * time.Second)
			return nil
		}
	}, func(s *store.Store) {
		time.Sleep(time.Second)
		if _, _, err := s.Commit(context.Background(), store.Op{Kind: store.Delete, Key: store.Key{Resource: "pods", Namespace: "default", Name: "web"}}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Second)
		before := c.asked.Load()
		time.Sleep(time.Minute)
		if now := c.asked.Load(); now != before {
			t.Errorf("a pod that is gone was asked about %d times more", now-before)
		}
	})
}

// What an endpoint answers is bounded before it is held.
func TestAnAnswerOfAnEndpointIsBounded(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			c, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				_, _ = c.Read(make([]byte, 1024))
				_, _ = fmt.Fprintf(c, "HTTP/1.1 200 %s\r\n\r\n", strings.Repeat("x", 8<<10))
			}()
		}
	}()
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	pod := gatedPod("web", madeGate)
	pod.Status.PodIP = "127.0.0.1"
	o := NewObserver(storetest.Open(t), time.Now)
	o.special = true
	got := o.Observe(t.Context(), pod, []abi.Observe{{Name: "page", Kind: "http", Port: abi.Port(port)}})[0]
	if len(got.Detail) > 512 {
		t.Errorf("an endpoint has the guest told %d bytes", len(got.Detail))
	}
}

// Who writes a pod's status could have the host look at itself, or at what only
// it can reach.
func TestOnlyAddressesOfPodsAreLookedAt(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	o := NewObserver(storetest.Open(t), time.Now)
	for _, address := range []string{"127.0.0.1", "::1", "0.0.0.0", "::", "169.254.169.254", "fe80::1", "224.0.0.1", "::ffff:127.0.0.1", "localhost", "metadata.internal"} {
		pod := gatedPod("web", madeGate)
		pod.Status.PodIP = address
		for _, kind := range []string{"http", "tcp"} {
			got := o.Observe(t.Context(), pod, []abi.Observe{{Name: "page", Kind: kind, Port: abi.Port(port)}})[0]
			if got.OK || !strings.Contains(got.Detail, "is no address of a pod") {
				t.Errorf("%s to %s = %+v, want it refused", kind, address, got)
			}
		}
	}
}

// counting counts the lists.
type counting struct {
	Objects
	lists atomic.Int32
}

func (c *counting) List(resource, namespace string, o store.ListOptions) (store.List, error) {
	c.lists.Add(1)
	return c.Objects.List(resource, namespace, o)
}

func TestPodsThatWaitForTheSameShareALook(t *testing.T) {
	t.Parallel()
	objects := &counting{Objects: storetest.Open(t)}
	now := time.Now()
	o := NewObserver(objects, func() time.Time { return now })
	want := []abi.Observe{{Name: "db", Kind: "pods", Selector: "app=db"}}
	for i := range 1000 {
		o.Observe(t.Context(), gatedPod("web-"+strconv.Itoa(i), madeGate), want)
	}
	if n := objects.lists.Load(); n > 2 {
		t.Errorf("1,000 pods had all pods listed %d times", n)
	}
	now = now.Add(time.Second)
	if o.Observe(t.Context(), gatedPod("web", madeGate), want); objects.lists.Load() < 3 {
		t.Error("a second later an old answer served")
	}
}

func TestAnUnchangedAnswerRenewsItsProbeTimeInTime(t *testing.T) {
	t.Parallel()
	first := withCondition(gatedPod("web", madeGate), madeGate, abi.Readiness{Status: "True"}, start)
	later := start.Add(stale)
	got := withCondition(first, madeGate, abi.Readiness{Status: "True"}, later)
	if c := got.Status.Conditions[0]; !c.LastProbeTime.Time.Equal(later) || !c.LastTransitionTime.Time.Equal(start) {
		t.Errorf("condition = %+v, want it probed at %v, and turned at %v", c, later, start)
	}
}

// Kubernetes lets a pod name a gate twice. That may not free it from the bound
// on how often it is asked.
func TestAGateThatAPodNamesTwiceIsAskedNoMoreOften(t *testing.T) {
	t.Parallel()
	c := &checker{judge: func(asked int32, _ *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{Status: "False", Message: strconv.Itoa(int(min(asked, 1000)))}, nil
	}}
	pod := gatedPod("web", madeGate)
	pod.Spec.ReadinessGates = append(pod.Spec.ReadinessGates, pod.Spec.ReadinessGates...)
	run(t, []*v1.Pod{pod}, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
	}, func(*store.Store) { time.Sleep(10 * time.Second) })
	if n := c.asked.Load(); n > 30 {
		t.Errorf("it was asked %d times in ten seconds, want ten and once a second", n)
	}
}

// A thousand pods whose endpoints answer do not wait for those whose do not,
// though one checker has them all.
func TestEndpointsThatHangHoldUpNoOthersOfTheirChecker(t *testing.T) {
	t.Parallel()
	c := &checker{wants: []abi.Observe{{Name: "page", Kind: "http", Port: "80"}}, judge: func(_ int32, p *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{Status: map[bool]string{true: "True", false: "False"}[p.Observed[0].OK], RequeueAfterNanos: int64(time.Second)}, nil
	}}
	var pods []*v1.Pod
	for i := range 200 {
		pods = append(pods, gatedPod("hangs-"+strconv.Itoa(i), madeGate))
	}
	run(t, pods, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
		cfg.Observe = func(_ context.Context, pod *v1.Pod, _ []abi.Observe) []wire.Observation {
			if strings.HasPrefix(pod.Name, "hangs") {
				time.Sleep(10 * time.Second)
				return []wire.Observation{{Name: "page"}}
			}
			time.Sleep(time.Millisecond)
			return []wire.Observation{{Name: "page", OK: true}}
		}
	}, func(s *store.Store) {
		time.Sleep(time.Minute) // by now it is known which hang
		for round := range 5 {
			name := "web-" + strconv.Itoa(round)
			for i := range 1000 {
				put(t, s, gatedPod(name+"-"+strconv.Itoa(i), madeGate))
			}
			time.Sleep(2 * time.Second)
			for i := range 1000 {
				if got := conditionOf(s, name+"-"+strconv.Itoa(i), madeGate); got.Status != v1.ConditionTrue {
					t.Fatalf("two seconds after it began, %s-%d is %q", name, i, got.Status)
				}
			}
		}
		time.Sleep(time.Minute)
		if got := conditionOf(s, "hangs-199", madeGate); got.Status != v1.ConditionFalse {
			t.Errorf("one that hangs is %q", got.Status)
		}
	})
}

// What the driver writes itself is no news to a checker.
func TestACheckerIsNotAskedAboutItsOwnAnswer(t *testing.T) {
	t.Parallel()
	for _, wants := range [][]abi.Observe{nil, {{Name: "page", Kind: "http", Port: "80"}}} {
		c := &checker{judge: answering("True"), wants: wants}
		run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
			cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
			cfg.Observe = func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
				return []wire.Observation{{Name: "page", OK: true}}
			}
		}, func(s *store.Store) {
			time.Sleep(30 * time.Second)
			if n := c.asked.Load(); n != 1 {
				t.Errorf("observing %d things, it was asked %d times about a pod that nobody changed", len(wants), n)
			}
			label(t, s, "web")
			time.Sleep(time.Second)
			if n := c.asked.Load(); n != 2 {
				t.Errorf("observing %d things, it was asked %d times about a pod that somebody changed once", len(wants), n)
			}
		})
	}
}

func label(t *testing.T, s *store.Store, pod string) {
	t.Helper()
	_, err := s.Update(context.Background(), store.Key{Resource: "pods", Namespace: "default", Name: pod}, func(o store.Object) (store.Object, error) {
		next := o.(*v1.Pod).DeepCopy()
		next.Labels = map[string]string{"changed": "yes"}
		return next, nil
	})
	if err != nil {
		t.Error(err)
	}
}

// Pods that come one by one are no call each, if there are many.
func TestPodsThatTrickleAreJudgedTogether(t *testing.T) {
	t.Parallel()
	c := &checker{judge: answering("True")}
	run(t, nil, func(cfg *Config) {
		cfg.Checkers = claimed(map[v1.PodConditionType]Checker{madeGate: c})
	}, func(s *store.Store) {
		for i := range 2000 {
			put(t, s, gatedPod("web-"+strconv.Itoa(i), madeGate))
			time.Sleep(time.Millisecond)
		}
		time.Sleep(time.Second)
		for i := range 2000 {
			if got := conditionOf(s, "web-"+strconv.Itoa(i), madeGate); got.Status != v1.ConditionTrue {
				t.Fatalf("web-%d is %q", i, got.Status)
			}
		}
	})
	if n := c.asked.Load(); n > 200 {
		t.Errorf("2,000 pods in two seconds cost %d calls", n)
	}
}
