package flowcontrol

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
)

func who(name string, groups ...string) user.Info {
	return &user.DefaultInfo{Name: name, Groups: groups}
}

func verb(v string) *apirequest.RequestInfo {
	return &apirequest.RequestInfo{Verb: v, Resource: "pods", IsResourceRequest: true, Name: map[string]string{"get": "x"}[v]}
}

// small is a gate of few seats.
func small(seats, flowQueue, queue int) *Fair {
	limits := map[string]Limits{}
	for name := range Defaults(1) {
		limits[name] = Limits{Seats: seats, FlowQueue: flowQueue, Queue: queue, Wait: 10 * time.Second}
	}
	return New(limits, 3)
}

func TestLevels(t *testing.T) {
	t.Parallel()
	lease := &apirequest.RequestInfo{Verb: "update", APIGroup: "coordination.k8s.io", Resource: "leases", Name: "n1"}
	tests := []struct {
		who   user.Info
		about *apirequest.RequestInfo
		want  string
	}{
		{who("system:node:n1", "system:nodes"), verb("get"), Nodes},
		{who("system:node:n1", "system:nodes"), lease, Leases},
		{who("system:kube-scheduler"), verb("get"), System},
		{who("system:kube-scheduler"), lease, Leases},
		{who("system:serviceaccount:kube-system:dns"), verb("get"), System},
		{who("system:serviceaccount:dev:web"), verb("get"), Accounts},
		{who("system:serviceaccount:dev:web"), lease, Accounts},
		{who("berth-admin", "system:masters"), verb("get"), Admin},
		{who("erin", "system:authenticated"), lease, Users},
		{who("system:anonymous", "system:unauthenticated"), verb("get"), Nobody},
		{nil, verb("get"), Nobody},
	}
	for _, test := range tests {
		if got := levelOf(test.who, test.about); got != test.want {
			t.Errorf("levelOf(%v, %s) = %s, want %s", test.who, test.about.Verb, got, test.want)
		}
	}
}

func TestAFloodIsRefusedAndOthersPass(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := small(4, 8, 100)
		var denied atomic.Int64
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() {
				leave, err := f.Enter(t.Context(), who("flood"), verb("get"))
				if err != nil {
					if seconds, ok := apierrors.SuggestsClientDelay(err); !apierrors.IsTooManyRequests(err) || !ok || seconds < 1 {
						t.Errorf("Enter = %v, want 429 with a delay", err)
					}
					denied.Add(1)
					return
				}
				time.Sleep(time.Second)
				leave()
			})
		}
		synctest.Wait()
		if got := denied.Load(); got != 100-4-8 {
			t.Errorf("%d were refused, want %d", got, 100-4-8)
		}
		begun := time.Now()
		for _, other := range []user.Info{who("system:node:n1", "system:nodes"), who("system:kube-scheduler"), who("system:serviceaccount:dev:web")} {
			leave, err := f.Enter(t.Context(), other, verb("get"))
			if err != nil {
				t.Fatal(err)
			}
			leave()
		}
		if took := time.Since(begun); took != 0 {
			t.Errorf("other levels waited %s", took)
		}
		leave, err := f.Enter(t.Context(), who("erin"), verb("get"))
		if err != nil {
			t.Fatal(err)
		}
		leave()
		if took := time.Since(begun); took > time.Second {
			t.Errorf("another user of the level waited %s, want the time of one request at most", took)
		}
		all.Wait()
		for _, s := range f.States() {
			if s.Taken != 0 || s.Waiting != 0 || s.Flows != 0 {
				t.Errorf("left behind: %+v", s)
			}
		}
	})
}

func TestSeatsAreSharedEvenly(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := small(4, 1000, 10000)
		var mu sync.Mutex
		done := map[string]int{}
		ctx, cancel := context.WithCancel(t.Context())
		var all sync.WaitGroup
		for name, clients := range map[string]int{"many": 200, "few": 4} {
			for range clients {
				all.Go(func() {
					for {
						leave, err := f.Enter(ctx, who(name), verb("get"))
						if err != nil {
							return
						}
						time.Sleep(10 * time.Millisecond)
						leave()
						mu.Lock()
						done[name]++
						mu.Unlock()
					}
				})
			}
		}
		time.Sleep(10 * time.Second)
		cancel()
		all.Wait()
		if ratio := float64(done["many"]) / float64(done["few"]); ratio < 0.8 || ratio > 1.25 {
			t.Errorf("done = %v: 200 clients of one user got %.2f times what 4 of another got", done, ratio)
		}
	})
}

func TestListsAreWide(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := small(2*listWidth, 10, 10)
		enter := func(v string) func() {
			leave, err := f.Enter(t.Context(), who("erin"), verb(v))
			if err != nil {
				t.Fatal(err)
			}
			return leave
		}
		first, second := enter("list"), enter("list")
		third := make(chan func())
		go func() { third <- enter("list") }()
		synctest.Wait()
		select {
		case <-third:
			t.Error("three lists ran where two fit")
		default:
		}
		first()
		first() // leaving twice is leaving once
		leave := <-third
		second()
		leave()
	})
}

func TestWhoCannotWaitGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := small(1, 10, 10)
		leave, err := f.Enter(t.Context(), who("a"), verb("get"))
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := f.Enter(ctx, who("b"), verb("get")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter = %v, want the context's error", err)
		}
		if _, err := f.Enter(t.Context(), who("b"), verb("get")); !apierrors.IsTooManyRequests(err) {
			t.Errorf("Enter = %v after its time, want 429", err)
		}
		leave()
		if _, err := f.Enter(ctx, who("b"), verb("get")); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Enter = %v for somebody who has gone, want the context's error", err)
		}
		for _, s := range f.States() {
			if s.Taken != 0 || s.Waiting != 0 || s.Flows != 0 {
				t.Errorf("left behind: %+v", s)
			}
		}
	})
}

func TestAUserHoldsSoManyStreams(t *testing.T) {
	t.Parallel()
	f := small(1, 1, 1)
	var releases []func()
	for range 3 {
		release, _, err := f.Hold(who("flood"))
		if err != nil {
			t.Fatal(err)
		}
		releases = append(releases, release)
	}
	if _, _, err := f.Hold(who("flood")); !apierrors.IsTooManyRequests(err) {
		t.Errorf("the fourth stream of three: %v, want 429", err)
	} else if seconds, ok := apierrors.SuggestsClientDelay(err); !ok || seconds < 1 {
		t.Errorf("the refusal suggests to wait %d s, want some", seconds)
	}
	if _, _, err := f.Hold(who("erin")); err != nil {
		t.Errorf("another user's stream: %v", err)
	}
	releases[0]()
	release, _, err := f.Hold(who("flood"))
	if err != nil {
		t.Fatalf("a stream after another has ended: %v", err)
	}
	for _, release := range append(releases[1:], release) {
		release()
	}
	if n := len(f.holds.byUser); n != 1 {
		t.Errorf("%d users are remembered, want the one who has a stream open", n)
	}
}

func TestEveryLevelHasLimits(t *testing.T) {
	t.Parallel()
	limits := Defaults(2)
	for _, name := range []string{Leases, Nodes, System, Admin, Accounts, Users, Nobody} {
		if limits[name].Seats < 1 || limits[name].Wait == 0 || limits[name].Queue == 0 {
			t.Errorf("level %s has limits %+v", name, limits[name])
		}
	}
}

func BenchmarkEnter(b *testing.B) {
	f := New(Defaults(2), 0)
	by := who("system:node:n1", "system:nodes")
	about := verb("get")
	b.ReportAllocs()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			leave, err := f.Enter(b.Context(), by, about)
			if err != nil {
				b.Fatal(err)
			}
			leave()
		}
	})
}
