package controller

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// trialBeside drives a canary beside a live guest that does not run, and keeps
// what came of the comparisons.
type trialBeside struct {
	live, tried *guest
	compared    [][2]string
	not         int
}

func (b *trialBeside) drive(t *testing.T, fill, check func(*cluster)) {
	t.Helper()
	texts := func(effects []Effect) string {
		var all []string
		for _, e := range effects {
			all = append(all, e.Text)
		}
		return strings.Join(all, ", ")
	}
	driveAs(t, b.tried, func(c *cluster, cfg *Config) {
		beside := *cfg
		beside.Guest, beside.Trial.Beside = b.live, true
		live, err := New(beside)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Trial = Trial{
			Live: func() []*Driver { return []*Driver{live} },
			Compared: func(_ store.Object, live, tried []Effect) {
				c.mu.Lock()
				defer c.mu.Unlock()
				b.compared = append(b.compared, [2]string{texts(live), texts(tried)})
			},
			NotCompared: func() {
				c.mu.Lock()
				defer c.mu.Unlock()
				b.not++
			},
		}
	}, fill, check)
}

func TestACanaryDecidesWhereTheLiveGuestFails(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name string
		live func(*Object, []Object) (*abi.ReconcileResult, error)
	}{
		{"it has no answer", func(*Object, []Object) (*abi.ReconcileResult, error) { return nil, errors.New("trapped") }},
		{"its answer is refused", func(*Object, []Object) (*abi.ReconcileResult, error) {
			return &abi.ReconcileResult{Delete: []abi.Deletion{{UID: "of nothing"}}}, nil
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			b := &trialBeside{live: &guest{decide: tt.live}, tried: &guest{decide: keep}}
			b.drive(t, func(c *cluster) { c.put("replicasets.apps", set("web", 3)) }, func(c *cluster) {
				if got := c.pods(); len(got) != 3 {
					t.Errorf("pods are %v, want those of the canary", got)
				}
				if b.not == 0 || len(b.compared) != 0 {
					t.Errorf("%d were not compared and %v were, want none that was", b.not, b.compared)
				}
			})
		})
	}
}

func TestWhoIsAskedBesideHasItsOwnMemory(t *testing.T) {
	t.Parallel()
	count := func(parent *Object, _ []Object) (*abi.ReconcileResult, error) {
		n := 0
		if was := parent.Fields[len(parent.Fields)-1]; len(was) > 0 {
			if err := json.Unmarshal(was, &n); err != nil {
				return nil, err
			}
		}
		memory, err := json.Marshal(n + 1)
		out := &abi.ReconcileResult{Memory: memory, Status: json.RawMessage(`{"replicas":` + string(memory) + `}`)}
		if n < 3 {
			out.RequeueAfterNanos = 1e6
		}
		return out, err
	}
	b := &trialBeside{
		live:  &guest{decide: count, parentFacts: []string{abi.FactMemory}},
		tried: &guest{decide: count, parentFacts: []string{abi.FactMemory}},
	}
	b.drive(t, func(c *cluster) { c.put("replicasets.apps", set("web", 0)) }, func(*cluster) {
		if len(b.compared) < 4 {
			t.Fatalf("compared %d times, want 4 at least", len(b.compared))
		}
		for i, both := range b.compared {
			if both[0] != both[1] {
				t.Errorf("comparison %d: live %s, tried %s, want the same: both remember as much", i, both[0], both[1])
			}
		}
	})
}

func TestComparedCreationsAreBounded(t *testing.T) {
	t.Parallel()
	large := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"annotations":{"a":"` + strings.Repeat("x", 1<<20) + `"}}}`)
	small := json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)
	for _, tt := range []struct {
		name   string
		create []abi.Creation
		want   string
	}{
		{"by their number", []abi.Creation{{Count: MaxCreations - 1, Object: small}, {Count: 9000, Object: small}}, "creates 8999 more of Pod, which are not compared"},
		{"by their bytes", []abi.Creation{{Count: 10_000, Object: large}}, "creates 9996 more of Pod, which are not compared"},
		{"and told where they are few", []abi.Creation{{Count: 3, Object: large}}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			driveAs(t, &guest{decide: keep}, func(c *cluster, cfg *Config) {
				d, err := New(*cfg)
				if err != nil {
					t.Fatal(err)
				}
				g, err := d.gather(set("web", 0))
				if err != nil {
					t.Fatal(err)
				}
				effects, err := d.effects(g, &abi.ReconcileResult{Create: tt.create})
				if err != nil {
					t.Fatal(err)
				}
				size, more := 0, ""
				for _, e := range effects {
					size += len(e.Key)
					if strings.Contains(e.Text, "not compared") {
						more = e.Text
					}
				}
				if more != tt.want || size > maxCompared+2<<20 {
					t.Errorf("%d bytes to be compared and %q, want %q", size, more, tt.want)
				}
			}, func(*cluster) {}, func(*cluster) {})
		})
	}
}

func TestWhatIsMadeBetweenTwoAnswersIsNoDifference(t *testing.T) {
	t.Parallel()
	var made *cluster
	want := func(*Object, []Object) (*abi.ReconcileResult, error) {
		object := json.RawMessage(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"one"}}`)
		return &abi.ReconcileResult{Create: []abi.Creation{{Count: 1, Unowned: true, Object: object}}}, nil
	}
	b := &trialBeside{tried: &guest{decide: want}, live: &guest{decide: func(parent *Object, children []Object) (*abi.ReconcileResult, error) {
		made.put("pods", pod("one", "other"))
		return want(parent, children)
	}}}
	b.drive(t, func(c *cluster) {
		made = c
		c.put("replicasets.apps", set("web", 0))
	}, func(*cluster) {
		if len(b.compared) == 0 {
			t.Fatal("nothing was compared")
		}
		if both := b.compared[0]; both[0] != both[1] || both[0] == "" {
			t.Errorf("live %q, tried %q, want the same", both[0], both[1])
		}
	})
}
