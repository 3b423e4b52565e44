// Package networktest is the suite that each network.Network passes.
package networktest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/network"
)

// Run runs the suite; open is called once for each test and gives a network
// with room for at least 16 pods.
func Run(t *testing.T, open func(t *testing.T) network.Network) {
	for name, test := range map[string]func(*testing.T, network.Network){
		"an attached pod has a namespace and an address": testAdd,
		"adding twice gives the same":                    testTwice,
		"addresses differ, also when added at once":      testDistinct,
		"a deleted pod's place is free again":            testReuse,
		"deleting what is absent succeeds":               testAbsent,
		"sweep keeps what it is told to":                 testSweep,
		"a healthy network is ready":                     testReady,
	} {
		t.Run(name, func(t *testing.T) {
			n := open(t)
			t.Cleanup(func() {
				if err := n.Sweep(context.Background(), network.Nothing); err != nil {
					t.Errorf("Sweep: %v", err)
				}
			})
			test(t, n)
		})
	}
}

func pod(i int) network.Pod {
	return network.Pod{ID: fmt.Sprintf("uid%d-0", i), Namespace: "default", Name: fmt.Sprintf("p%d", i), UID: fmt.Sprintf("uid%d", i)}
}

func add(t *testing.T, n network.Network, p network.Pod) network.Attachment {
	t.Helper()
	a, err := n.Add(t.Context(), p)
	if err != nil {
		t.Fatalf("Add(%s): %v", p.ID, err)
	}
	return a
}

func testAdd(t *testing.T, n network.Network) {
	a := add(t, n, pod(1))
	if a.NetNS == "" || len(a.IPs) == 0 || !a.IPs[0].IsValid() {
		t.Errorf("Add = %+v", a)
	}
}

func testTwice(t *testing.T, n network.Network) {
	first, second := add(t, n, pod(1)), add(t, n, pod(1))
	if diff := cmp.Diff(fmt.Sprint(first), fmt.Sprint(second)); diff != "" {
		t.Errorf("the second Add differs: %s", diff)
	}
}

func testDistinct(t *testing.T, n network.Network) {
	var (
		wg   sync.WaitGroup
		mu   sync.Mutex
		seen = map[string]bool{}
	)
	for i := range 8 {
		wg.Go(func() {
			a, err := n.Add(t.Context(), pod(i))
			if err != nil {
				t.Errorf("Add: %v", err)
				return
			}
			mu.Lock()
			defer mu.Unlock()
			for _, ip := range a.IPs {
				if seen[ip.String()] {
					t.Errorf("address %s was given twice", ip)
				}
				seen[ip.String()] = true
			}
		})
	}
	wg.Wait()
}

func testReuse(t *testing.T, n network.Network) {
	for i := range 3 {
		add(t, n, pod(i))
		if err := n.Del(t.Context(), pod(i).ID); err != nil {
			t.Fatalf("Del: %v", err)
		}
	}
	a := add(t, n, pod(0))
	if len(a.IPs) == 0 {
		t.Errorf("Add = %+v", a)
	}
}

func testAbsent(t *testing.T, n network.Network) {
	for range 2 {
		if err := n.Del(t.Context(), "absent-0"); err != nil {
			t.Errorf("Del: %v", err)
		}
	}
}

func testSweep(t *testing.T, n network.Network) {
	kept := add(t, n, pod(1))
	add(t, n, pod(2))
	if err := n.Sweep(t.Context(), func() []string { return []string{pod(1).ID} }); err != nil {
		t.Fatalf("Sweep: %v", err)
	}
	again := add(t, n, pod(1))
	if !slices.Equal(kept.IPs, again.IPs) {
		t.Errorf("sweep took a kept pod's address: %v, then %v", kept.IPs, again.IPs)
	}
}

func testReady(t *testing.T, n network.Network) {
	if err := n.Ready(t.Context()); err != nil {
		t.Errorf("Ready: %v", err)
	}
}
