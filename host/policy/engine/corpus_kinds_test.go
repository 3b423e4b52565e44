package engine_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/engine"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// kinds are the exports in which each kind of guest is asked what it decides.
var kinds = []struct {
	kind string
	f    engine.Func
}{
	{"a predicate", engine.FuncFilter}, {"a priority", engine.FuncScore}, {"a policy of scope set", engine.FuncWhatIf},
	{"a gate", engine.FuncGate}, {"a controller", engine.FuncReconcile},
}

// harms are what each kind of guest does in its own export.
func harms(f engine.Func) []hostile {
	in := func(do func(m *Module) []byte) func() []byte {
		return policy(func(m *Module) {
			code := do(m)
			m.Export(f.String(), givesI64, []byte{I32}, code, I64Const(InputAt<<32|8))
		})
	}
	just := func(code ...[]byte) func() []byte { return in(func(*Module) []byte { return Seq(code...) }) }
	return []hostile{
		{"spins", just(Forever()), 1, ends(engine.FuelSpent)},
		{"climbs a tree of calls", in(func(m *Module) []byte {
			last := m.Func("leaf", Sig(nil), nil)
			for range 40 {
				last = m.Func("level", Sig(nil), nil, Call(last), Call(last))
			}
			return Call(last)
		}), 1, ends(engine.FuelSpent)},
		{"recurses", in(func(m *Module) []byte {
			self := m.Func("first", Sig(nil), nil) + 1
			m.Func("again", Sig(nil), nil, Call(self))
			return Call(self)
		}), 1, ends(engine.StackSpent)},
		{"fills memory in a straight line", just(grown, Times(900, I32Const(0), I32Const(0), I32Const(64*mib), Op(0xfc, 11, 0))), 1, ends(engine.FuelSpent)},
		{"grows without end", just(Forever(I32Const(1), Op(0x40, 0, 0x1a))), 1, ends(engine.FuelSpent)},
		{"traps", just(Op(0)), 1, ends(engine.Trap)},
		{"floods the log", func() []byte {
			m := Policy(Import{From: "berth", Name: "log", Type: logType})
			m.Export(f.String(), givesI64, nil, Forever(I32Const(1), I32Const(64), I32Const(20), Call(0)), I64Const(0))
			return m.Bytes()
		}, 1, ends(engine.FuelSpent)},
		{"keeps state between calls", in(func(m *Module) []byte {
			g := m.Global(0)
			return Seq(GlobalGet(g), I64Const(1), Op(0x7c), GlobalSet(g), I32Const(InputAt), GlobalGet(g), Store64(0))
		}), 100, answers},
		{"traps after ten thousand good calls", in(func(m *Module) []byte {
			g := m.Global(10_000)
			return Seq(GlobalGet(g), I64Const(-1), Op(0x7c), GlobalSet(g), GlobalGet(g), Op(0x50), If(Void, Op(0)))
		}), 10_001, ends(engine.Trap)},
		{"answers numbers that are none", in(func(m *Module) []byte {
			m.Data(InputAt, bytes.Repeat([]byte{0xff}, 64))
			return nil
		}), 3, answers},
	}
}

func byKind() []attack {
	var all []attack
	for _, k := range kinds {
		for _, h := range harms(k.f) {
			h.name = k.kind + " that " + h.name
			all = append(all, attack{h, k.f})
		}
	}
	return all
}

// elsewhere are guests that spin, trap and recurse in the exports that are about
// no decision of their own.
func elsewhere() []attack {
	var all []attack
	for f, gives := range map[engine.Func]byte{
		engine.FuncOpen: I32, engine.FuncApply: I32, engine.FuncPod: I64, engine.FuncReasons: I64, engine.FuncExplain: I64,
		engine.FuncIdle: I32, engine.FuncError: I64,
	} {
		takes := []byte{I32}
		if f == engine.FuncIdle || f == engine.FuncError {
			takes = nil
		}
		with := func(code func(*Module) []byte) func() []byte {
			return policy(func(m *Module) {
				harm := code(m)
				m.Drop(f.String()).Export(f.String(), Sig(takes, gives), nil, harm, Op(0))
			})
		}
		for how, h := range map[string]hostile{
			"spins": {"", with(func(*Module) []byte { return Forever() }), 1, ends(engine.FuelSpent)},
			"traps": {"", with(func(*Module) []byte { return Op(0) }), 1, ends(engine.Trap)},
			"recurses": {"", with(func(m *Module) []byte {
				self := m.Func("f", Sig(nil), nil) + 1
				m.Func("g", Sig(nil), nil, Call(self))
				return Call(self)
			}), 1, ends(engine.StackSpent)},
		} {
			h.name = "a guest that " + how + " in " + f.String()
			all = append(all, attack{h, f})
		}
	}
	return all
}

// TestTheCorpusHasEachClass holds that what the sandbox was asked to withstand is
// in the corpus, by a part of each module's name.
func TestTheCorpusHasEachClass(t *testing.T) {
	t.Parallel()
	each := func(harm string) (all []string) {
		for _, k := range kinds {
			all = append(all, k.kind+" that "+harm)
		}
		return all
	}
	classes := map[string][]string{
		"loops everywhere": append(each("spins"), "in _initialize", "in berth_manifest", "in berth_input", "spins in berth_open", "spins in berth_apply",
			"spins in berth_pod", "spins in berth_reasons", "spins in berth_explain", "spins in berth_idle", "spins in berth_error"),
		"call trees":              append(each("climbs a tree of calls"), "a tree of 2^40 indirect calls"),
		"recursion":               append(each("recurses"), "recursion with large frames", "recursion by turns", "recursion through a table"),
		"straight-line bulk ops":  append(each("fills memory in a straight line"), "a straight line of memory.fill", "a straight line of memory.grow"),
		"memory bombs":            append(each("grows without end"), "a memory of 4 GiB", "memory.grow by 4 GiB"),
		"table bombs":             {"table.grow", "a table of four billion", "a thousand tables", "a loop of table.fill"},
		"compile bombs":           {"nested blocks", "2 MB of branch table", "434 KB of if and else", "16 KB of locals", "four billion locals", "thirty thousand functions", "locals that live across blocks"},
		"lying sections":          {"a section longer", "four billion types", "a section that comes twice", "a name section that lies", "debug information that lies"},
		"pointers and lengths":    {"berth_score outside", "berth_whatif outside", "berth_reasons outside", "berth_explain outside", "berth_gate outside", "berth_error outside", "berth_reconcile outside", "an answer outside of memory", "a manifest outside", "input outside of memory", "a log line outside"},
		"NaN-ish scores":          append(each("answers numbers that are none"), "scores that are no numbers"),
		"1 GB reasons":            {"an answer of berth_reasons of 1 GB", "an answer of berth_explain of 1 GB", "a log line of 1 GB"},
		"invalid UTF-8":           {"a log line of no UTF-8"},
		"missing exports":         {"no filter", "no marker"},
		"mistyped exports":        {"a mistyped filter", "a filter that is a global"},
		"unknown imports":         {"an import of the system", "an import of an unknown WASI", "an import of a mistyped log"},
		"state kept":              append(each("keeps state between calls"), "another answer at each call"),
		"log floods":              append(each("floods the log"), "a flood of log lines"),
		"a trap after good calls": append(each("traps after ten thousand good calls"), "a trap after a million good calls"),
	}
	all := corpus()
	for class, names := range classes {
		for _, name := range names {
			if !slices.ContainsFunc(all, func(h attack) bool { return strings.Contains(h.name, name) }) {
				t.Errorf("%s: no module is %q", class, name)
			}
		}
	}
}
