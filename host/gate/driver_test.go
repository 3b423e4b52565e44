package gate

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

// checker answers what judge says, for each pod.
type checker struct {
	asked atomic.Int32
	judge func(asked int32, pod *wire.GatePod) (abi.Readiness, error)
	wants []abi.Observe
}

func (c *checker) Name() string            { return "Test" }
func (c *checker) Observes() []abi.Observe { return c.wants }
func (c *checker) Judge(_ context.Context, _ int64, pods []wire.GatePod) ([]abi.Readiness, error) {
	n := c.asked.Add(1)
	var out []abi.Readiness
	for i := range pods {
		r, err := c.judge(n, &pods[i])
		if err != nil {
			return nil, err
		}
		out = append(out, r)
	}
	return out, nil
}

// judged runs a driver over a gated pod for a while and returns its condition.
func judged(t *testing.T, c *checker, for_ time.Duration, during func(*store.Store, chan<- struct{})) v1.PodCondition {
	t.Helper()
	var condition v1.PodCondition
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t)
		pod := gatedPod("web", "example.test/gate")
		pod.UID = "uid-web"
		put(t, s, pod)
		swapped := make(chan struct{}, 1)
		d := New(Config{
			Objects: s, Swapped: swapped, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Checkers: func() map[v1.PodConditionType]Checker {
				return map[v1.PodConditionType]Checker{"example.test/gate": c}
			},
			Observe: NewObserver(s, time.Now).Observe,
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		synctest.Wait()
		if during != nil {
			during(s, swapped)
		}
		time.Sleep(for_)
		synctest.Wait()
		o, _ := s.Get(store.Key{Resource: "pods", Namespace: "default", Name: "web"})
		for _, have := range o.(*v1.Pod).Status.Conditions {
			if have.Type == "example.test/gate" {
				condition = have
			}
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return condition
}

func put(t *testing.T, s *store.Store, pod *v1.Pod) {
	t.Helper()
	if _, _, err := s.Commit(context.Background(), store.Op{Kind: store.Create, Key: store.Key{Resource: "pods", Namespace: pod.Namespace, Name: pod.Name}, Object: pod}); err != nil {
		t.Fatal(err)
	}
}

func TestAVerdictBecomesTheCondition(t *testing.T) {
	t.Parallel()
	c := &checker{judge: func(int32, *wire.GatePod) (abi.Readiness, error) {
		return abi.Readiness{Status: "True", Reason: "Fine", Message: "it is"}, nil
	}}
	got := judged(t, c, time.Second, nil)
	if got.Status != v1.ConditionTrue || got.Reason != "Fine" || got.Message != "it is" || got.LastProbeTime.IsZero() {
		t.Errorf("condition = %+v", got)
	}
}

func TestACheckerIsAskedAgainWhenItSaysSo(t *testing.T) {
	t.Parallel()
	c := &checker{judge: func(asked int32, _ *wire.GatePod) (abi.Readiness, error) {
		if asked < 6 {
			return abi.Readiness{Status: "False", Reason: "Wait", RequeueAfterNanos: int64(30 * time.Second)}, nil
		}
		return abi.Readiness{Status: "True"}, nil
	}}
	if got := judged(t, c, time.Minute, nil); got.Status != v1.ConditionFalse {
		t.Errorf("after a minute the condition is %s, want False", got.Status)
	}
	c.asked.Store(0)
	if got := judged(t, c, 3*time.Minute, nil); got.Status != v1.ConditionTrue {
		t.Errorf("after three minutes and %d asks the condition is %s, want True", c.asked.Load(), got.Status)
	}
}

func TestACheckerThatFailsLeavesUnknown(t *testing.T) {
	t.Parallel()
	c := &checker{judge: func(int32, *wire.GatePod) (abi.Readiness, error) { return abi.Readiness{}, errors.New("trap") }}
	got := judged(t, c, time.Second, nil)
	if got.Status != v1.ConditionUnknown || got.Reason != "CheckerFailed" || got.Message != "trap" {
		t.Errorf("condition = %+v", got)
	}
}

// Thousands of gated pods cost calls by the batch, and no goroutine each.
func TestManyPodsAreJudgedInBatches(t *testing.T) {
	t.Parallel()
	const pods = 2000
	synctest.Test(t, func(t *testing.T) {
		s := storetest.Open(t)
		for i := range pods {
			put(t, s, gatedPod("web-"+strconv.Itoa(i), "example.test/gate"))
		}
		var looking, most atomic.Int32
		c := &checker{
			wants: []abi.Observe{{Name: "slow", Kind: "http", Port: "80"}},
			judge: func(int32, *wire.GatePod) (abi.Readiness, error) { return abi.Readiness{Status: "True"}, nil },
		}
		d := New(Config{
			Objects: s, Now: time.Now, Log: slog.New(slog.DiscardHandler),
			Checkers: func() map[v1.PodConditionType]Checker {
				return map[v1.PodConditionType]Checker{"example.test/gate": c}
			},
			Observe: func(context.Context, *v1.Pod, []abi.Observe) []wire.Observation {
				n := looking.Add(1)
				defer looking.Add(-1)
				for was := most.Load(); n > was && !most.CompareAndSwap(was, n); was = most.Load() {
				}
				time.Sleep(time.Second)
				return nil
			},
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- d.Run(ctx) }()
		start := time.Now()
		for !allReady(s, pods) && time.Since(start) < time.Hour {
			time.Sleep(time.Second)
		}
		if took := time.Since(start); took > 2*time.Minute {
			t.Errorf("%d pods of which each takes a second to observe took %v", pods, took)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if calls := c.asked.Load(); calls > 2*pods/maxLooking {
			t.Errorf("%d pods cost %d calls", pods, calls)
		}
		if most.Load() > maxLooking {
			t.Errorf("%d pods were looked at at once, at most %d may be", most.Load(), maxLooking)
		}
	})
}

func allReady(s *store.Store, want int) bool {
	list, err := s.List("pods", "", store.ListOptions{})
	ready := 0
	for _, o := range list.Items {
		for _, c := range o.(*v1.Pod).Status.Conditions {
			if c.Type == "example.test/gate" && c.Status == v1.ConditionTrue {
				ready++
			}
		}
	}
	return err == nil && ready == want
}

func TestASwapAsksAllGatesAnew(t *testing.T) {
	t.Parallel()
	var live atomic.Pointer[checker]
	live.Store(&checker{judge: answering("False")})
	var swapped chan struct{}
	run(t, []*v1.Pod{gatedPod("web", madeGate)}, func(cfg *Config) {
		swapped = make(chan struct{}, 1)
		cfg.Swapped = swapped
		cfg.Checkers = func() map[v1.PodConditionType]Checker {
			return map[v1.PodConditionType]Checker{madeGate: live.Load()}
		}
	}, func(s *store.Store) {
		live.Store(&checker{judge: answering("True")})
		swapped <- struct{}{}
		synctest.Wait()
		if got := conditionOf(s, "web", madeGate); got.Status != v1.ConditionTrue {
			t.Errorf("condition = %s, want True by the new checker", got.Status)
		}
	})
}

func TestObserve(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/ready" {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}))
	defer server.Close()
	host, portText, err := net.SplitHostPort(server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	s := storetest.Open(t)
	ready := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db", Labels: map[string]string{"app": "db"}}}
	ready.Status.Conditions = []v1.PodCondition{{Type: v1.PodReady, Status: v1.ConditionTrue}}
	put(t, s, ready)
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "other", Labels: map[string]string{"rack": "a"}}}
	if _, _, err := s.Commit(t.Context(), store.Op{Kind: store.Create, Key: store.Key{Resource: "nodes", Name: "other"}, Object: node}); err != nil {
		t.Fatal(err)
	}
	pod := gatedPod("web", "a")
	pod.Status.PodIP = host
	tests := []struct {
		name string
		want abi.Observe
		ok   bool
		code int32
	}{
		{"a page that is there", abi.Observe{Kind: "http", Port: abi.Port(portText), Path: "/ready"}, true, 200},
		{"a page that is not", abi.Observe{Kind: "http", Port: abi.Port(portText), Path: "/other"}, false, 503},
		{"an open port", abi.Observe{Kind: "tcp", Port: abi.Port(portText)}, true, 0},
		{"a closed port", abi.Observe{Kind: "tcp", Port: "1"}, false, 0},
		{"pods that are ready", abi.Observe{Kind: "pods", Selector: "app=db"}, true, 1},
		{"no pods", abi.Observe{Kind: "pods", Selector: "app=none"}, false, 0},
		{"a selector that does not parse", abi.Observe{Kind: "pods", Selector: "=="}, false, 0},
		{"objects that are there", abi.Observe{Kind: "objects", Resource: "pods", Selector: "app=db"}, true, 1},
		{"objects that are not", abi.Observe{Kind: "objects", Resource: "services", Selector: "app=db"}, false, 0},
		{"objects of a kind that is in no namespace", abi.Observe{Kind: "objects", Resource: "nodes", Selector: "rack=a"}, true, 1},
		{"a node that is gone", abi.Observe{Kind: "node", Condition: "Ready"}, false, 0},
		{"what nobody can observe", abi.Observe{Kind: "weather"}, false, 0},
	}
	o := NewObserver(s, time.Now)
	o.special = true
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := o.Observe(t.Context(), pod, []abi.Observe{tt.want})[0]
			if got.OK != tt.ok || got.Code != tt.code || !got.OK && got.Detail == "" {
				t.Errorf("Observe(%+v) = %+v, want ok %v, code %d", tt.want, got, tt.ok, tt.code)
			}
		})
	}
}
