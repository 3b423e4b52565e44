package controller

import (
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

func TestAGuestThatAnswersTheSameDifferentlyIsToldOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		moody bool
		want  string
	}{
		{"one that counts its calls", true, "asked twice about the same state it answers differently: why was"},
		{"one that answers by what it is asked", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) {
				if n := calls.Add(1); tt.moody {
					return &abi.ReconcileResult{Why: []string{fmt.Sprint("call ", n)}}, nil
				}
				return &abi.ReconcileResult{}, nil
			}}
			drive(t, g, func(c *cluster) {
				for i := range sampled {
					c.put("replicasets.apps", set(fmt.Sprintf("web-%d", i), 0))
				}
			}, func(c *cluster) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if got := strings.Join(c.notes, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
					t.Errorf("notes %q, want %q", got, tt.want)
				}
				if got := calls.Load(); got <= sampled {
					t.Errorf("asked %d times about %d parents, want one to be asked twice", got, sampled)
				}
			})
		})
	}
}

func TestAGuestThatWantsMoreOfItsOwnResultIsToldOf(t *testing.T) {
	t.Parallel()
	status := func(n int) json.RawMessage { return json.RawMessage(fmt.Sprintf(`{"replicas":%d}`, n)) }
	made := []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}}
	replicas := func(p *Object) (n int) {
		_ = json.Unmarshal(p.Fields[2], &n)
		return n
	}
	for _, tt := range []struct {
		name   string
		decide func(p *Object, children []Object) *abi.ReconcileResult
		want   string
	}{
		{"it makes one more each time", func(*Object, []Object) *abi.ReconcileResult {
			return &abi.ReconcileResult{Create: made}
		}, "wants more: creates Pod"},
		{"it makes one more each time, and says that it goes by steps", func(*Object, []Object) *abi.ReconcileResult {
			return &abi.ReconcileResult{Create: made, Step: true}
		}, ""},
		{"it counts its answers in the status", func(p *Object, _ []Object) *abi.ReconcileResult {
			return &abi.ReconcileResult{Status: status(replicas(p) + 1)}
		}, "wants more: gives the status"},
		{"its status follows what it makes", func(_ *Object, children []Object) *abi.ReconcileResult {
			out := &abi.ReconcileResult{Status: status(len(children))}
			if len(children) == 0 {
				out.Create = made
			}
			return out
		}, ""},
		{"it makes more than one commit takes", func(_ *Object, children []Object) *abi.ReconcileResult {
			out := &abi.ReconcileResult{Status: status(7)}
			if n := MaxCreations + 1 - len(children); n > 0 {
				out.Create = []abi.Creation{{Count: int64(n), Object: made[0].Object}}
			}
			return out
		}, ""},
		{"it says the same event each time", func(*Object, []Object) *abi.ReconcileResult {
			return &abi.ReconcileResult{Status: status(7), Events: []abi.Event{{Type: "Normal", Reason: "Again"}}}
		}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			calls := 0
			g := &guest{decide: func(p *Object, children []Object) (*abi.ReconcileResult, error) {
				if calls++; calls > 20 {
					return &abi.ReconcileResult{}, nil
				}
				return tt.decide(p, children), nil
			}}
			drive(t, g, func(c *cluster) {
				c.sample = 1
				c.put("replicasets.apps", set("web", 1))
			}, func(c *cluster) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if got := strings.Join(c.notes, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
					t.Errorf("notes %q, want %q", got, tt.want)
				}
				if calls < 4 {
					t.Errorf("it was asked %d times", calls)
				}
			})
		})
	}
}

// What somebody else takes away between an answer and the look at its result is
// missed by the guest, and rightly so.
func TestWhatOthersTakeAwayIsNoResult(t *testing.T) {
	t.Parallel()
	creation := []abi.Creation{{Count: 1, Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)}}
	patched := 0
	g := &guest{decide: func(_ *Object, children []Object) (*abi.ReconcileResult, error) {
		if len(children) == 0 && patched < 3 {
			return &abi.ReconcileResult{Create: creation, Step: true}, nil
		}
		out := &abi.ReconcileResult{}
		for _, c := range children {
			if len(c.Object.GetAnnotations()) == 0 {
				out.Patch = append(out.Patch, abi.Patch{UID: string(c.Object.GetUID()), Patch: json.RawMessage(`{"metadata":{"annotations":{"seen":"yes"}}}`)})
			}
		}
		return out, nil
	}}
	drive(t, g, func(c *cluster) {
		c.sample = 1
		c.after = func() {
			list, err := c.store.List("pods", "", store.ListOptions{})
			if err != nil {
				t.Error(err)
			}
			for _, pod := range list.Items {
				if len(pod.GetAnnotations()) == 0 {
					continue
				}
				patched++
				if _, _, err := c.store.Commit(c.t.Context(), store.Op{Kind: store.Delete, Key: keyOf("pods", pod)}); err != nil {
					t.Error(err)
				}
			}
		}
		c.put("replicasets.apps", set("web", 1))
	}, func(c *cluster) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if len(c.notes) > 0 {
			t.Errorf("notes %q, want none", c.notes)
		}
		if patched < 3 {
			t.Errorf("%d pods were patched, want 3", patched)
		}
	})
}

// A seed is given to guests that ask for one: another with each question, and the
// same where a question is asked again or followed up.
func TestSeedsAreGivenToThoseThatAskForThem(t *testing.T) {
	t.Parallel()
	for _, seeded := range []bool{true, false} {
		var mu sync.Mutex // parents are asked about at once
		var seeds []uint64
		g := &guest{seeded: seeded, seeds: func(seed uint64) {
			mu.Lock()
			defer mu.Unlock()
			seeds = append(seeds, seed)
		}}
		g.decide = func(*Object, []Object) (*abi.ReconcileResult, error) {
			return &abi.ReconcileResult{Status: json.RawMessage(`{"replicas":7}`)}, nil
		}
		drive(t, g, func(c *cluster) {
			c.sample = 1
			c.put("replicasets.apps", set("web", 1))
			c.put("replicasets.apps", set("db", 1))
		}, func(*cluster) {})
		different := map[uint64]int{}
		for _, s := range seeds {
			different[s]++
		}
		// Each is asked twice and followed up after its first answer, and asked twice
		// after its own writing.
		switch {
		case !seeded && (len(different) != 1 || different[0] == 0):
			t.Errorf("a guest that asks for none is given the seeds %v", seeds)
		case seeded && (different[0] > 0 || len(different) < 2):
			t.Errorf("the seeds are %v", seeds)
		}
		for seed, n := range different {
			if seeded && n < 2 {
				t.Errorf("seed %d was given %d times of %v: asking again gives another", seed, n, seeds)
			}
		}
		if len(seeds) < 6 {
			t.Errorf("it was asked %d times", len(seeds))
		}
	}
}
