package isolation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/apitest"
	"github.com/berth-dev/berth/nodeagent/forward"
	"github.com/berth-dev/berth/nodeagent/network"
)

// sums is a kernel that only keeps what it is told. It refuses as often as it is
// told, and does what it refused when it is to mend, unless it is stuck.
type sums struct {
	mu      sync.Mutex
	pods    map[netip.Addr]*forward.Isolation
	sets    map[forward.Set]map[forward.Member]bool
	refuse  int
	stuck   bool
	refused []forward.Filter
	told    chan struct{}
	mended  int
	// forgot are addresses whose flows are not remembered; sticky refuses that.
	forgot []netip.Addr
	sticky bool
}

func newSums() *sums {
	return &sums{pods: map[netip.Addr]*forward.Isolation{}, sets: map[forward.Set]map[forward.Member]bool{}, told: make(chan struct{}, 1)}
}

func (k *sums) Filter(f forward.Filter, _ bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.tell()
	if k.refuse--; k.refuse >= 0 {
		k.refused = append(k.refused, f)
		return errors.New("refused")
	}
	k.carry(f)
	return nil
}

func (k *sums) Repair() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer k.tell()
	if k.stuck {
		return errors.New("still refused")
	}
	for _, f := range k.refused {
		k.carry(f)
	}
	k.refused = nil
	k.mended++
	return nil
}

func (k *sums) carry(f forward.Filter) {
	for a, i := range f.Pods {
		k.pods[a] = i
	}
	for name, c := range f.Sets {
		if c.Anew || k.sets[name] == nil {
			k.sets[name] = map[forward.Member]bool{}
		}
		for _, m := range c.Leave {
			delete(k.sets[name], m)
		}
		for _, m := range c.Join {
			k.sets[name][m] = true
		}
	}
}

func (k *sums) tell() {
	select {
	case k.told <- struct{}{}:
	default:
	}
}

func (k *sums) Forget(addresses []netip.Addr) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.sticky {
		return errors.New("it cannot forget")
	}
	k.forgot = append(k.forgot, addresses...)
	return nil
}

// forgotten takes what was.
func (k *sums) forgotten() (all []netip.Addr) {
	k.mu.Lock()
	defer k.mu.Unlock()
	all, k.forgot = k.forgot, nil
	return all
}

func (*sums) Denied() (ingress, egress uint64, err error) { return 3, 4, nil }

// members are those of all sets.
func (k *sums) members() string {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []string
	for _, set := range k.sets {
		for m := range set {
			out = append(out, fmt.Sprintf("%s:%d", m.Addr, m.Port))
		}
	}
	slices.Sort(out)
	return strings.Join(out, " ")
}

// until waits for what is told to become so.
func (k *sums) until(t *testing.T, what string, so func() bool) {
	t.Helper()
	for !so() {
		select {
		case <-k.told:
		case <-t.Context().Done():
			t.Fatalf("%s: %s", what, k.members())
		}
	}
}

// streams hands out one stream after the other.
type streams chan io.ReadCloser

func (s streams) open(ctx context.Context) (io.ReadCloser, error) {
	select {
	case r := <-s:
		return r, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func run(t *testing.T, cfg Config) *Isolation {
	t.Helper()
	cfg.Node, cfg.Log = "n1", slog.New(slog.NewTextHandler(t.Output(), nil))
	i := New(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = i.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	return i
}

// clients lets pods of the app "client" reach port "web" of all.
func clients() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "clients"},
		Spec: networkingv1.NetworkPolicySpec{
			PolicyTypes: []networkingv1.PolicyType{"Ingress"},
			Ingress: []networkingv1.NetworkPolicyIngressRule{{From: []networkingv1.NetworkPolicyPeer{{
				PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "client"}}, NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"team": "a"}},
			}}}},
		},
	}
}

func server() *v1.Pod {
	return &v1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "server", UID: "server"}}
}

// TestPeersAreFollowed: pods of other nodes join and leave sets as the stream tells,
// also where one stream ends and the next tells of fewer.
func TestPeersAreFollowed(t *testing.T) {
	t.Parallel()
	api, kernel, peers := apitest.New(nil), newSums(), make(streams)
	if _, err := api.NetworkingV1().NetworkPolicies("default").Create(t.Context(), clients(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	team := &v1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "dev", Labels: map[string]string{"team": "a"}}}
	if _, err := api.CoreV1().Namespaces().Create(t.Context(), team, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := run(t, Config{Client: api, Peers: peers.open, Kernel: kernel})
	i.Adopt(server(), "server-0", []netip.Addr{netip.MustParseAddr("10.0.0.1")})
	r, w := io.Pipe()
	peers <- r
	fmt.Fprintln(w, `{"uid":"a","namespace":"dev","name":"a","node":"n2","labels":{"app":"client"},"ips":["10.0.1.1","fd00::1"]}`)
	fmt.Fprintln(w, `{"uid":"b","namespace":"dev","name":"b","node":"n2","labels":{"app":"client"},"ips":["10.0.1.2","nonsense"]}`)
	fmt.Fprintln(w, `{"uid":"c","namespace":"other","name":"c","node":"n2","labels":{"app":"client"},"ips":["10.0.1.3"]}`)
	fmt.Fprintln(w, `{"uid":"server","namespace":"default","name":"server","node":"n1","ips":["10.0.0.9"]}`)
	fmt.Fprintln(w, `{"synced":true}`)
	fmt.Fprintln(w, `{}`)
	kernel.until(t, "all", func() bool { return kernel.members() == "10.0.1.1:0 10.0.1.2:0 fd00::1:0" })
	fmt.Fprintln(w, `{"uid":"a","gone":true}`)
	fmt.Fprintln(w, `{"uid":"d","namespace":"dev","name":"d","node":"n2","labels":{"app":"client"},"ips":["10.0.1.4"]}`)
	kernel.until(t, "one came, one went", func() bool { return kernel.members() == "10.0.1.2:0 10.0.1.4:0" })
	w.CloseWithError(errors.New("the host restarts"))

	r, w = io.Pipe()
	peers <- r
	fmt.Fprintln(w, `{"uid":"d","namespace":"dev","name":"d","node":"n2","labels":{"app":"client"},"ips":["10.0.1.4"]}`)
	fmt.Fprintln(w, `{"synced":true}`)
	kernel.until(t, "one went meanwhile", func() bool { return kernel.members() == "10.0.1.4:0" })
	// A namespace leaves the team.
	team.Labels = nil
	if _, err := api.CoreV1().Namespaces().Update(t.Context(), team, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	kernel.until(t, "none", func() bool { return kernel.members() == "" })
	if err := api.NetworkingV1().NetworkPolicies("default").Delete(t.Context(), "clients", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	kernel.until(t, "the policy goes", func() bool {
		kernel.mu.Lock()
		defer kernel.mu.Unlock()
		return kernel.pods[netip.MustParseAddr("10.0.0.1")] == nil
	})
}

// connects gives an address to all.
type connects struct{ network.Network }

func (connects) Add(context.Context, network.Pod) (network.Attachment, error) {
	return network.Attachment{IPs: []netip.Addr{netip.MustParseAddr("10.0.0.1")}}, nil
}

func (connects) Del(context.Context, string) error { return nil }

func (connects) Sweep(context.Context, func() []string) error { return nil }

// TestAPodIsIsolatedBeforeItsFirstPacket: it has no network before all is known and
// the kernel has its rules.
func TestAPodIsIsolatedBeforeItsFirstPacket(t *testing.T) {
	t.Parallel()
	api, kernel, peers := apitest.New(nil), newSums(), make(streams)
	if _, err := api.NetworkingV1().NetworkPolicies("default").Create(t.Context(), clients(), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	i := run(t, Config{Client: api, Peers: peers.open, Kernel: kernel})
	i.Set(server())
	n := i.Network(connects{})
	given := make(chan error, 1)
	add := func() {
		_, err := n.Add(t.Context(), network.Pod{ID: "server-0", UID: "server"})
		kernel.mu.Lock()
		defer kernel.mu.Unlock()
		if err == nil && kernel.pods[netip.MustParseAddr("10.0.0.1")] == nil {
			err = errors.New("it has a network and no rules")
		}
		given <- err
	}
	go add()
	r, w := io.Pipe()
	peers <- r
	select {
	case err := <-given:
		t.Fatalf("it has a network before the cluster's pods are known: %v", err)
	default:
	}
	fmt.Fprintln(w, `{"synced":true}`)
	if err := <-given; err != nil {
		t.Fatal(err)
	}
	if err := n.Del(t.Context(), "server-0"); err != nil {
		t.Fatal(err)
	}
	if err := i.await(t.Context(), func(*state) {}); err != nil {
		t.Fatal(err)
	}
	kernel.mu.Lock()
	if left := kernel.pods[netip.MustParseAddr("10.0.0.1")]; left != nil {
		t.Errorf("without a network it is left %v", left)
	}
	kernel.refuse = 1
	kernel.mu.Unlock()
	go add()
	if err := <-given; err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("where the kernel refuses its rules: %v", err)
	}
	kernel.until(t, "it is tried again", func() bool {
		kernel.mu.Lock()
		defer kernel.mu.Unlock()
		return kernel.mended > 0
	})
	go add()
	if err := <-given; err != nil {
		t.Errorf("once the kernel has its rules: %v", err)
	}
	kernel.mu.Lock()
	defer kernel.mu.Unlock()
	if kernel.mended != 1 {
		t.Errorf("the kernel mended %d times, want 1", kernel.mended)
	}
}

// TestNobodyHasANetworkWhileRulesAreRefused: a pod that comes again says nothing
// new, and is told so for as long as the kernel refuses what it said first.
func TestNobodyHasANetworkWhileRulesAreRefused(t *testing.T) {
	t.Parallel()
	kernel := newSums()
	s := newState(New(Config{Kernel: kernel, Log: slog.New(slog.DiscardHandler)}))
	s.book.PutPolicy(types.NamespacedName{Namespace: "default", Name: "clients"}, clients())
	other := server()
	other.Name, other.UID = "other", "other"
	s.set(server())
	s.set(other)
	if err := s.apply(time.Now()); err != nil {
		t.Fatal(err)
	}
	kernel.refuse, kernel.stuck = 1, true
	add := func(uid, ip string) error {
		s.attach(uid+"-0", uid, []netip.Addr{netip.MustParseAddr(ip)})
		return s.apply(time.Now())
	}
	for _, pod := range []struct{ uid, ip string }{{"server", "10.0.0.1"}, {"server", "10.0.0.1"}, {"other", "10.0.0.2"}, {"other", "10.0.0.2"}} {
		if err := add(pod.uid, pod.ip); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Errorf("%s has a network: %v", pod.uid, err)
		}
	}
	kernel.stuck = false
	if err := add("server", "10.0.0.1"); err != nil {
		t.Errorf("once the kernel has the rules: %v", err)
	}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		if kernel.pods[netip.MustParseAddr(ip)] == nil {
			t.Errorf("%s has no rules", ip)
		}
	}
}

// TestAPodsFlowsEndWithIt: those of a pod that goes, and those that its address has when
// a pod comes, where pods are isolated; not those of a pod that runs on.
func TestAPodsFlowsEndWithIt(t *testing.T) {
	t.Parallel()
	api, kernel := apitest.New(nil), newSums()
	i := run(t, Config{Client: api, Kernel: kernel})
	n := i.Network(connects{})
	at := []netip.Addr{netip.MustParseAddr("10.0.0.1")}
	step := func(what string, do func() error, want []netip.Addr) {
		t.Helper()
		if err := do(); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if err := i.await(t.Context(), func(*state) {}); err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if got := kernel.forgotten(); !slices.Equal(got, want) {
			t.Errorf("%s: flows of %v are forgotten, want %v", what, got, want)
		}
	}
	add := func(id string) func() error {
		return func() error {
			_, err := n.Add(t.Context(), network.Pod{ID: id, UID: "server"})
			return err
		}
	}
	del := func(id string) func() error { return func() error { return n.Del(t.Context(), id) } }
	i.Set(server())
	step("it comes, and nobody is isolated", add("server-0"), nil)
	step("it goes", del("server-0"), at)
	i.change(func(s *state) {
		s.book.PutPolicy(types.NamespacedName{Namespace: "default", Name: "clients"}, clients())
	})
	step("it comes, and is isolated", add("server-1"), at)
	step("it is connected already", add("server-1"), nil)
	step("it is swept", func() error { return n.Sweep(t.Context(), network.Nothing) }, at)
	i.Adopt(server(), "server-2", at)
	step("it runs on", func() error { return nil }, nil)
	kernel.mu.Lock()
	kernel.sticky = true
	kernel.mu.Unlock()
	if err := add("server-3")(); err == nil || !strings.Contains(err.Error(), "it cannot forget") {
		t.Errorf("where flows cannot be forgotten it has a network: %v", err)
	}
	kernel.mu.Lock()
	kernel.sticky = false
	kernel.mu.Unlock()
	step("once they can be", add("server-3"), at)
}

// TestNobodyWaitsForAnAgentThatEnds: a pod that is being connected then is told.
func TestNobodyWaitsForAnAgentThatEnds(t *testing.T) {
	t.Parallel()
	i := New(Config{Client: apitest.New(nil), Peers: make(streams).open, Kernel: newSums(), Node: "n1", Log: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); _ = i.Run(ctx) }()
	given := make(chan error, 1)
	n := i.Network(connects{})
	go func() {
		_, err := n.Add(t.Context(), network.Pod{ID: "server-0", UID: "server"})
		given <- err
	}()
	cancel()
	<-done
	if err := <-given; !errors.Is(err, errOver) {
		t.Errorf("%v, want that the agent ends", err)
	}
	if _, err := n.Add(t.Context(), network.Pod{ID: "server-1", UID: "server"}); !errors.Is(err, errOver) {
		t.Errorf("afterwards: %v, want that the agent ends", err)
	}
}
