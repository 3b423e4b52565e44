package vet

import (
	"errors"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

var (
	nothing = wasmtest.Sig(nil)
	i32     = byte(wasmtest.I32)
)

func TestAGoodModuleIsLetThrough(t *testing.T) {
	t.Parallel()
	out, report, err := Rewrite(wasmtest.Policy().Bytes(), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if report.ABI != 1 || report.MemoryMax != 1024 || report.Charges == 0 || report.BytesOut != len(out) {
		t.Errorf("report = %+v", report)
	}
	if _, _, err := Rewrite(out, Limits{}); err == nil {
		t.Error("a rewritten module passes again, though its export of the counter is reserved")
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	one := uint32(0)
	tests := []struct {
		name   string
		limits Limits
		build  func(*wasmtest.Module)
		rule   Rule
		says   string
	}{
		{"a start function", Limits{}, func(m *wasmtest.Module) { m.Start = &one }, RuleStart, "start function"},
		{"no marker", Limits{}, func(m *wasmtest.Module) { m.Drop("berth_abi_v1") }, RuleABI, "lacks the export berth_abi_v1"},
		{"another ABI", Limits{}, func(m *wasmtest.Module) {
			m.Drop("berth_abi_v1").Export("berth_abi_v2", nothing, nil)
		}, RuleABI, "asks for another ABI: berth_abi_v2"},
		{"no manifest", Limits{}, func(m *wasmtest.Module) { m.Drop("berth_manifest") }, RuleExport, "berth_manifest"},
		{"a mistyped export", Limits{}, func(m *wasmtest.Module) { m.Export("berth_score", nothing, nil) }, RuleExport, "berth_score is () and must be (i32)i64"},
		{"a command", Limits{}, func(m *wasmtest.Module) { m.Export("_start", nothing, nil) }, RuleExport, "-buildmode=c-shared"},
		{"a reserved export", Limits{}, func(m *wasmtest.Module) { m.Export("berth:fuel", nothing, nil) }, RuleExport, "keeps for itself"},
		{"no memory", Limits{}, func(m *wasmtest.Module) { m.Memory = nil }, RuleMemory, "no memory"},
		{"more memory than the cap", Limits{MemoryBytes: 1 << 20}, func(m *wasmtest.Module) { m.Memory = &[2]uint32{17, 20} }, RuleMemory, "1088 KiB"},
		{"the counter read", Limits{}, func(m *wasmtest.Module) {
			m.Func("thief", nothing, nil, wasmtest.GlobalGet(0), wasmtest.Op(0x1a))
		}, RuleReserved, "function 6 (thief): it names global 0 of 0"},
		{"the counter set", Limits{}, func(m *wasmtest.Module) {
			m.Func("thief", nothing, nil, wasmtest.I64Const(1<<40), wasmtest.GlobalSet(m.Global(0)+1))
		}, RuleReserved, "it names global 1 of 1"},
		{"the counter exported", Limits{}, func(m *wasmtest.Module) { m.ExportRaw("mine", 3, 0) }, RuleReserved, "mine"},
		{"a scratch local named", Limits{}, func(m *wasmtest.Module) {
			m.Func("thief", nothing, nil, wasmtest.I64Const(0), wasmtest.Set(0))
		}, RuleReserved, "local 0 of 0"},
		{"a table that grows", Limits{}, func(m *wasmtest.Module) {
			m.Sizes = []uint32{1}
			m.Func("grow", nothing, nil, wasmtest.Op(0xd0, 0x70), wasmtest.I32Const(1), wasmtest.Op(0xfc, 15, 0, 0x1a))
		}, RuleTable, "grows a table"},
		{"an unknown import", Limits{}, func(m *wasmtest.Module) { m.ImportRaw("env", "system", 0, 0) }, RuleImport, `imports "system" from "env"`},
		{"an imported memory", Limits{}, func(m *wasmtest.Module) { m.ImportRaw("env", "memory", 2, 0, 1) }, RuleImport, "no function"},
		{"deep nesting", Limits{Nesting: 1024}, func(m *wasmtest.Module) {
			m.Func("deep", nothing, nil, wasmtest.Times(2000, wasmtest.Op(0x02, 0x40)), wasmtest.Times(2000, wasmtest.Op(0x0b)))
		}, RuleSize, "nested blocks: 1025, the limit is 1024"},
		{"deep nesting by the meter's own blocks", Limits{}, func(m *wasmtest.Module) {
			m.Func("deep", nothing, nil, wasmtest.Times(600, wasmtest.Op(0x03, 0x40)), wasmtest.Times(600, wasmtest.Op(0x0b)))
		}, RuleSize, "nested blocks: 2049, the limit is 2048"},
		{"many locals", Limits{}, func(m *wasmtest.Module) {
			m.FuncRaw("wide", nothing, wasmtest.Seq(wasmtest.U32(1), wasmtest.U32(1<<31), wasmtest.Op(0x7e, 0x0b)))
		}, RuleSize, "locals: 2147483648"},
		{"code that the meter makes many times as long", Limits{Bytes: 1 << 16}, func(m *wasmtest.Module) {
			spin := m.Func("spin", nothing, nil, wasmtest.Loop(wasmtest.Void))
			m.Func("calls", nothing, nil, wasmtest.Times(20_000, wasmtest.Call(spin)))
		}, RuleSize, "bytes of code, with the meter"},
		{"an instruction of threads", Limits{}, func(m *wasmtest.Module) {
			m.Func("atomic", nothing, nil, wasmtest.Op(0xfe, 3, 0))
		}, RuleFeature, "instruction 0xfe"},
		{"a vector where none are wanted", Limits{NoSIMD: true}, func(m *wasmtest.Module) { m.Func("v", nothing, nil, wasmtest.Op(0xfd, 0x0f)) }, RuleFeature, "vector instruction 15"},
		{"a relaxed vector instruction", Limits{}, func(m *wasmtest.Module) { m.Func("v", nothing, nil, wasmtest.Op(0xfd, 0x80, 0x02)) }, RuleFeature, "vector instruction 256"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			m := wasmtest.Policy()
			tt.build(m)
			_, _, err := Rewrite(m.Bytes(), tt.limits)
			var r *Refusal
			if !errors.As(err, &r) || r.Rule != tt.rule {
				t.Fatalf("Rewrite = %v, want a refusal by rule %s", err, tt.rule)
			}
			if !strings.Contains(err.Error(), tt.says) {
				t.Errorf("it says %q, want %q in it", err, tt.says)
			}
		})
	}
}

func FuzzRewrite(f *testing.F) {
	f.Add(wasmtest.Policy().Bytes())
	full := wasmtest.Policy(wasmtest.Import{From: ModuleBerth, Name: "log", Type: wasmtest.Sig([]byte{i32, i32, i32})})
	full.Sizes, full.Elem = []uint32{4}, []uint32{0, 1}
	full.Global(7)
	full.Passive([]byte("abc"))
	f.Add(full.Bytes())
	f.Fuzz(func(t *testing.T, wasm []byte) {
		out, report, err := Rewrite(wasm, Limits{})
		if err != nil {
			var r *Refusal
			if !errors.As(err, &r) || r.What == "" {
				t.Fatalf("Rewrite = %v, want a refusal that says why", err)
			}
			return
		}
		if report.Charges == 0 || len(out) == 0 {
			t.Errorf("a module was let through with no charge: %+v", report)
		}
	})
}

// TestTheSameModuleIsWrittenTheSame holds of one with many names, lest its code
// is compiled again each time.
func TestTheSameModuleIsWrittenTheSame(t *testing.T) {
	t.Parallel()
	m := wasmtest.Policy()
	for range 50 {
		m.Func("f", nothing, nil)
	}
	m.Raw = [][]byte{
		wasmtest.Section(secCustom, append(wasmtest.Name("another"), wasmtest.Section(1, append([]byte{1, 0}, wasmtest.Name("not its name")...))...)),
	}
	wasm := m.Bytes()
	twice := wasmtest.Section(secCustom, append(wasmtest.Name("name"), wasmtest.Section(1, append([]byte{1, 0}, wasmtest.Name("a later name")...))...))
	first, _, err := Rewrite(wasm, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := Rewrite(append(wasm, twice...), Limits{})
	if err != nil || string(again) != string(first) {
		t.Errorf("written again, a module is another (%v)", err)
	}
	if !strings.Contains(string(first), "berth_manifest") || strings.Contains(string(first), "not its name") {
		t.Error("it has names of another section than that of names")
	}
}

// TestForeignNamesAreSafeToPrint holds that no name which a module chooses moves
// a terminal's cursor or begins a line of its own.
func TestForeignNamesAreSafeToPrint(t *testing.T) {
	t.Parallel()
	named := func(name string) []byte {
		m := wasmtest.Policy()
		m.Func(name, nothing, nil)
		return m.Bytes()
	}
	for name, kept := range map[string]bool{
		"main.(*größe).Filter": true,
		"a\x1b[2J":             false,
		"a\nberth_filter":      false,
		"a\u202eb":             false,
	} {
		out, _, err := Rewrite(named(name), Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(string(out), name); got != kept {
			t.Errorf("a function called %q keeps its name: %v, want %v", name, got, kept)
		}
	}
	m := wasmtest.Policy().Drop("berth_abi_v1")
	m.Export("berth_abi_v\x1b[2J\n", nothing, nil)
	if _, _, err := Rewrite(m.Bytes(), Limits{}); err == nil || strings.ContainsAny(err.Error(), "\x1b\n") {
		t.Errorf("Rewrite = %q, want a refusal of one line", err)
	}
}
