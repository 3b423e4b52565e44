package policy_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/store"
)

// guest is a policy assembled by hand: it compiles in no time, and does wrong
// when told to.
type guest struct {
	name, version, kind string
	// A predicate refuses the rows for which row&mask == refuse; -1 is none.
	mask, refuse int32
	// A priority scores row*times.
	times int64
	// traps says after how many filter or score calls it traps, 0 for never;
	// spins has it spin instead.
	traps int64
	spins bool
	// badOpen has it refuse its config, badApply the cluster's state.
	badOpen, badApply bool
	schema            string
}

const (
	outAt     = 1 << 20
	reasonsAt = 2048
)

func (g guest) bytes() []byte {
	if g.kind == "" {
		g.kind = "predicate"
	}
	if g.schema == "" {
		g.schema = "{}"
	}
	manifest := fmt.Sprintf(`{"abi":1,"module":"made","version":%q,"policies":[{"name":%q,"kind":%q,"reads":["node.labels"],"scope":"row","normalize":"none","configSchema":%s,"conditionTypes":["made"]}]}`,
		g.version, g.name, g.kind, g.schema)
	reasons := fmt.Sprintf(`[{"text":"version %s says no"}]`, g.version)
	m := Policy().Drop("berth_manifest").Drop("berth_open")
	m.Memory = &[2]uint32{64, 1024}
	m.Data(ManifestAt, []byte(manifest))
	m.Data(reasonsAt, []byte(reasons))
	m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(ManifestAt<<32|int64(len(manifest))))
	m.Export("berth_open", Sig([]byte{I32}, I32), nil, I32Const(flag(g.badOpen)))
	m.Export("berth_apply", Sig([]byte{I32}, I32), nil, I32Const(flag(g.badApply)))
	m.Export("berth_pod", Sig([]byte{I32}, I64), nil, I64Const(0))
	m.Export("berth_reasons", Sig([]byte{I32}, I64), nil, I64Const(reasonsAt<<32|int64(len(reasons))))
	refuses := "version " + g.version + " refuses"
	m.Data(reasonsAt+1024, []byte(refuses))
	m.Export("berth_error", Sig(nil, I64), nil, I64Const((reasonsAt+1024)<<32|int64(len(refuses))))
	calls := m.Global(0)
	fault := Seq(GlobalGet(calls), I64Const(1), Op(0x7c), GlobalSet(calls),
		GlobalGet(calls), I64Const(g.traps), Op(0x55), If(Void, Op(0)))
	switch {
	case g.traps == 0:
		fault = nil
	case g.spins:
		fault = Seq(GlobalGet(calls), I64Const(1), Op(0x7c), GlobalSet(calls),
			GlobalGet(calls), I64Const(g.traps), Op(0x55), If(Void, Forever()))
	}
	row := Seq(Get(1), I32Const(2), Op(0x74), Load32(InputAt)) // the i-th row
	verdict := Seq(I32Const(outAt), Get(1), Op(0x6a), row, I32Const(g.mask), Op(0x71), I32Const(g.refuse), Op(0x46), Op(0x3a, 0, 0))
	m.Export("berth_filter", Sig([]byte{I32}, I64), []byte{I32}, fault, eachRow(verdict), answer(0))
	score := Seq(I32Const(outAt), Get(1), I32Const(3), Op(0x74), Op(0x6a), row, Op(0xad), I64Const(g.times), Op(0x7e), Store64(0))
	m.Export("berth_score", Sig([]byte{I32}, I64), []byte{I32}, fault, eachRow(score), answer(3))
	return m.Bytes()
}

func flag(b bool) int32 {
	if b {
		return 1
	}
	return 0
}

// eachRow counts local 1 over the rows of the input, whose length is local 0.
func eachRow(code []byte) []byte {
	return Block(Void, Loop(Void,
		Get(1), Get(0), I32Const(2), Op(0x76), Op(0x4f), BrIf(1), // i >= n
		code, Get(1), I32Const(1), Op(0x6a), Set(1), Br(0)))
}

// answer is as many bytes at outAt as there are rows, shifted.
func answer(shift int32) []byte {
	return Seq(I64Const(outAt<<32), Get(0), I32Const(2), Op(0x76), I32Const(shift), Op(0x74), Op(0xad), Op(0x84))
}

// upload puts a module into the store and returns its name.
func (r *rig) upload(t testing.TB, wasm []byte) string {
	t.Helper()
	m, err := r.Examine(t.Context(), wasm, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Keep(t.Context(), m, wasm); err != nil {
		t.Fatal(err)
	}
	key := store.Key{Resource: policy.Modules, Name: m.Name}
	if _, ok := r.store.Get(key); !ok {
		if _, _, err := r.store.Commit(t.Context(), store.Op{Kind: store.Create, Key: key, Object: m}); err != nil {
			t.Fatal(err)
		}
	}
	return m.Name
}

// put makes a Policy or changes it, and loads.
func (r *rig) put(t testing.TB, name string, change func(*v1alpha1.PolicySpec)) *v1alpha1.Policy {
	t.Helper()
	r.write(t, name, change)
	r.Load(t.Context())
	return r.policy(t, name)
}

func (r *rig) write(t testing.TB, name string, change func(*v1alpha1.PolicySpec)) {
	t.Helper()
	key := store.Key{Resource: policy.Policies, Name: name}
	op := store.Op{Kind: store.Update, Key: key}
	p := &v1alpha1.Policy{}
	if o, ok := r.store.Get(key); ok {
		p = o.(*v1alpha1.Policy).DeepCopy()
	} else {
		op.Kind = store.Create
		p.Name, p.UID = name, "uid-of-policy"
	}
	change(&p.Spec)
	p.Generation++
	op.Object = p
	if _, _, err := r.store.Commit(t.Context(), op); err != nil {
		t.Fatal(err)
	}
}

// join puts a policy into the default profile.
func (r *rig) join(t testing.TB, name, kind string) {
	t.Helper()
	_, err := r.store.Update(t.Context(), store.Key{Resource: policy.Profiles, Name: "default"}, func(o store.Object) (store.Object, error) {
		p := o.(*v1alpha1.Profile).DeepCopy()
		if kind == "priority" {
			p.Spec.Priorities = append(p.Spec.Priorities, v1alpha1.ProfilePriority{Name: name, Weight: 100})
		} else {
			p.Spec.Predicates = append(p.Spec.Predicates, v1alpha1.ProfilePredicate{Name: name})
		}
		return p, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r.Load(t.Context())
}

func module(name string) func(*v1alpha1.PolicySpec) {
	return func(s *v1alpha1.PolicySpec) { s.Module = name }
}

func withConfig(name, config string) func(*v1alpha1.PolicySpec) {
	return func(s *v1alpha1.PolicySpec) {
		s.Module, s.Config = name, &runtime.RawExtension{Raw: json.RawMessage(config)}
	}
}
