package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/engine/enginetest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/schedule/policytest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// crowdedRig is a rig whose guests may have so many MiB together.
func crowdedRig(t *testing.T, mib int64) *rig {
	t.Helper()
	e, err := engine.New(context.Background(), engine.Config{CacheDir: enginetest.Cache(), GuestMemory: mib << 20})
	if err != nil {
		t.Fatal(err)
	}
	r := newRigOn(t, e)
	t.Cleanup(func() { _ = r.Close() })
	for i := range 20 {
		r.cluster.UpsertNode(policytest.Node(fmt.Sprint("n", i), "16", "64Gi", 100, nil))
	}
	return r
}

// hungry takes 1 MiB more each time that it is asked, and traps when it gets none.
func hungry(name string) []byte {
	return guest{Name: name, Version: "1", Refuse: -1, Also: func(m *Module) {
		m.Memory = &[2]uint32{64, 16384}
		m.Drop("berth_pod").Export("berth_pod", Sig([]byte{I32}, I64), nil,
			I32Const(16), Op(0x40, 0), I32Const(-1), Op(0x46), If(Void, Op(0)), I64Const(0))
	}}.Bytes()
}

func (r *rig) putHungry(t *testing.T, name string, mode v1alpha1.Mode) {
	t.Helper()
	r.put(t, name, func(s *v1alpha1.PolicySpec) {
		s.Module, s.Mode, s.FailureMode = r.upload(t, hungry(name)), mode, v1alpha1.Open
		s.Limits = &v1alpha1.PolicyLimits{MemoryBytes: 1 << 30}
	})
	r.join(t, name, "predicate")
}

func (r *rig) places(t *testing.T, pods int) (nodes []string) {
	t.Helper()
	for i := range pods {
		nodes = append(nodes, r.decide(t, policytest.Pod(fmt.Sprint("pod-", i), fmt.Sprint(i+1, "m"), "1Mi", nil)))
	}
	return nodes
}

// said is all that a policy's guests said, and how they failed.
func (r *rig) said(t *testing.T, name string) (all string) {
	t.Helper()
	lines, ok := r.GuestLog(name)
	if !ok {
		t.Fatalf("there is no policy %s", name)
	}
	for _, line := range lines {
		all += line.Message + "\n"
	}
	return all
}

func TestAPolicyThatEatsMemoryIsStoppedAtTheBound(t *testing.T) {
	t.Parallel()
	alone := crowdedRig(t, 64)
	want := alone.places(t, 60)
	for _, mode := range []v1alpha1.Mode{v1alpha1.Enforce, v1alpha1.Shadow} {
		t.Run(string(mode), func(t *testing.T) {
			t.Parallel()
			r := crowdedRig(t, 64)
			r.putHungry(t, "hungry", mode)
			r.putHungry(t, "starving", mode)
			if got := r.places(t, 60); fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("pods went to %v, want %v", got, want)
			}
			for _, f := range r.Figures() {
				if f.Failures > 0 && f.Name != "hungry" && f.Name != "starving" {
					t.Errorf("policy %s failed %d times: %s", f.Name, f.Failures, f.LastFailure)
				}
			}
			for _, text := range []string{"there is no room for", "--guest-memory", "spec.mode: Off"} {
				if said := r.said(t, "hungry") + r.said(t, "starving"); !strings.Contains(said, text) {
					t.Errorf("the failures lack %q: %s", text, said)
				}
			}
		})
	}
}

func TestAPolicyForWhichThereWasNoRoomIsLoadedOnceThereIs(t *testing.T) {
	t.Parallel()
	r := crowdedRig(t, 160)
	sized := func(name string) string {
		return r.upload(t, guest{Name: name, Version: "1", Refuse: -1, Also: func(m *Module) { m.Memory = &[2]uint32{1000, 1024} }}.Bytes())
	}
	first, second := sized("first"), sized("second")
	r.put(t, "first", withModule(first))
	r.join(t, "first", "predicate")
	r.places(t, 3)
	status := r.put(t, "second", withModule(second)).Status
	if status.Phase != v1alpha1.PhaseRefused || !strings.Contains(status.Message, "no room for 62.5 MiB") || !strings.Contains(status.Message, "--guest-memory") {
		t.Fatalf("the second policy is %s: %s", status.Phase, status.Message)
	}
	r.Load(t.Context())
	if status = r.policy(t, "second").Status; status.Phase != v1alpha1.PhaseRefused {
		t.Fatalf("the second policy is %s, with the first one there", status.Phase)
	}
	r.put(t, "first", func(s *v1alpha1.PolicySpec) { s.Mode = v1alpha1.Off })
	if status = r.policy(t, "second").Status; status.Phase != v1alpha1.PhaseLive {
		t.Errorf("the second policy is %s, with the first one off: %s", status.Phase, status.Message)
	}
}

func TestFormerProgramsAndTwinsGiveWayUnheard(t *testing.T) {
	t.Parallel()
	r := crowdedRig(t, 160)
	large := func(version string) string {
		return r.upload(t, guest{Name: "large", Version: version, Refuse: -1, Also: func(m *Module) { m.Memory = &[2]uint32{700, 1024} }}.Bytes())
	}
	r.Present = func(context.Context) (snapshot.Log, error) { return r.cluster, nil }
	// Two of them and the built-in policies fit, three do not.
	for _, version := range []string{"1", "2", "1", "3"} {
		r.put(t, "large", withModule(large(version)))
		r.join(t, "large", "predicate")
		r.places(t, 20)
	}
	for _, f := range r.Figures() {
		if f.Failures > 0 {
			t.Errorf("policy %s failed %d times: %s", f.Name, f.Failures, f.LastFailure)
		}
	}
	if said := r.said(t, "large"); said != "" {
		t.Errorf("the large policy said %q", said)
	}
	if live, _ := r.Digest("large"); v1alpha1.ModuleName(live) != large("3") {
		t.Errorf("module %s is live, want the last one", live)
	}
}
