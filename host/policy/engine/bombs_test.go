package engine_test

import (
	"bytes"
	"fmt"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// bombs are modules that are dear to compile.
func bombs() []hostile {
	body := func(code ...[]byte) func() []byte { return filter([]byte{I32, I64}, code...) }
	return []hostile{
		{"300 KB of nested blocks", body(Times(100_000, Op(0x02, Void)), Times(100_000, Op(0x0b))), 1, byVet},
		{"2 MB of branch table", body(Block(Void, I32Const(0), Op(0x0e), U32(2_000_000), make([]byte, 2_000_001))), 1, byVet},
		{"many branch tables", body(Times(1000, Block(Void, Get(0), Op(0x0e), U32(4000), make([]byte, 4001)))), 1, byVet},
		{"434 KB of if and else", body(Times(40_000, Get(0), Op(0x04, Void), Get(0), Set(1), Op(0x05), I32Const(1), Set(1), Op(0x0b))), 1, byVet},
		{"if and else up to the limit", body(Times(8000, Get(0), Op(0x04, Void), Get(0), Set(1), Op(0x05), I32Const(1), Set(1), Op(0x0b)), grown), 1, ""},
		{"nesting up to the limit", body(Times(2000, Op(0x02, Void)), Times(2000, Op(0x0b))), 1, answers},
		{"loops nested up to the limit", body(Times(2000, Op(0x03, Void)), Times(2000, Op(0x0b))), 1, ""},
		{"a branch table up to the limit", body(Times(500, Op(0x02, Void)), Get(0), Op(0x0e), U32(4000), bytes.Repeat([]byte{3}, 4001), Times(500, Op(0x0b))), 1, answers},
		{"16 KB of locals", policy(func(m *Module) {
			m.FuncRaw("wide", Sig(nil), Seq(U32(8000), bytes.Repeat([]byte{1, I64}, 8000), Op(0x0b)))
		}), 1, byVet},
		{"four billion locals", policy(func(m *Module) {
			m.FuncRaw("wide", Sig(nil), Seq(U32(2), U32(1<<32-1), Op(I64), U32(1<<32-1), Op(I64, 0x0b)))
		}), 1, byVet},
		{"locals up to the limit, each used", body(locals(2000)), 1, ""},
		{"locals that live across blocks", policy(func(m *Module) {
			var code []byte
			for i := range 4000 {
				code = append(code, Seq(Get(0), Op(0x04, Void), Get(uint32(i%500)+1), Get(uint32(i*7%500)+1), Op(0x7c), Set(uint32(i*3%500)+1), Op(0x0b))...)
			}
			m.Export("berth_filter", givesI64, bytes.Repeat([]byte{I64}, 500), code, I64Const(0))
		}), 1, ""},
		{"more locals that live across blocks", policy(func(m *Module) {
			var code []byte
			for i := range 7000 {
				code = append(code, Seq(Get(0), Op(0x04, Void), Get(uint32(i%1500)+1), Get(uint32(i*7%1500)+1), Op(0x7c), Set(uint32(i*3%1500)+1), Op(0x0b))...)
			}
			m.Export("berth_filter", givesI64, bytes.Repeat([]byte{I64}, 1500), code, I64Const(0))
		}), 1, byVet},
		{"many functions with locals that live across blocks", policy(func(m *Module) {
			var code []byte
			for i := range 1000 {
				code = append(code, Seq(Get(0), Op(0x04, Void), Get(uint32(i%100)+1), Get(uint32(i*7%100)+1), Op(0x7c), Set(uint32(i*3%100)+1), Op(0x0b))...)
			}
			for range 50 {
				m.Func("f", givesI64, bytes.Repeat([]byte{I64}, 100), code, I64Const(0))
			}
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, ""},
		{"thirty thousand functions of 2,000 locals", policy(func(m *Module) {
			for range 30_000 {
				m.FuncRaw("wide", Sig(nil), Seq(U32(1), U32(2000), Op(I64, 0x0b)))
			}
		}), 1, byVet},
		{"a function of 500 KB", body(Times(100_000, Get(1), I32Const(3), Op(0x6a), Set(1))), 1, byVet},
		{"a straight function up to the limit", body(Times(70_000, Get(1), I32Const(3), Op(0x6a), Set(1))), 1, answers},
		{"a deep operand stack", body(Times(100_000, I32Const(1)), Times(100_000, Op(0x1a))), 1, ""},
		{"a hundred thousand functions", policy(func(m *Module) {
			for i := range 100_000 {
				m.Func(fmt.Sprint(i), Sig(nil), nil)
			}
		}), 1, byVet},
		{"thirty thousand functions", policy(func(m *Module) {
			for range 30_000 {
				m.Func("f", Sig(nil), nil)
			}
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, answers},
		{"a hundred thousand globals", policy(func(m *Module) {
			for range 100_000 {
				m.Global(1)
			}
		}), 1, byVet},
		{"five thousand types", policy(func(m *Module) {
			m.Raw = nil
			for i := range 1000 {
				m.Type(Sig(bytes.Repeat([]byte{I32}, i%60), bytes.Repeat([]byte{I64}, i/60%16)...))
				m.Type(Sig(bytes.Repeat([]byte{I64}, i%60), bytes.Repeat([]byte{I32}, i/60%16)...))
				m.Type(Sig(bytes.Repeat([]byte{F64}, i%60), bytes.Repeat([]byte{I32}, i/60%16)...))
				m.Type(Sig(bytes.Repeat([]byte{F32}, i%60), bytes.Repeat([]byte{I32}, i/60%16)...))
				m.Type(Sig(bytes.Repeat([]byte{F32}, i%60), bytes.Repeat([]byte{F64}, i/60%16)...))
			}
		}), 1, byVet},
		{"a function of 1,000 parameters", policy(func(m *Module) { m.Func("wide", Sig(bytes.Repeat([]byte{I64}, 1000)), nil) }), 1, byVet},
		{"17 MB of data", policy(func(m *Module) { m.Data(0, make([]byte, 17*mib)) }), 1, byVet},
	}
}

func locals(n int) []byte {
	var code []byte
	for i := range n {
		code = append(code, Seq(Get(0), Set(1), I32Const(int32(i)), Op(0x1a))...)
	}
	return code
}

// forged are modules whose bytes are not what they say.
func forged() []hostile {
	good := func() []byte { return filter(nil)() }
	raw := func(b ...byte) func() []byte {
		return func() []byte { return append([]byte("\x00asm\x01\x00\x00\x00"), b...) }
	}
	after := func(s ...[]byte) func() []byte { return func() []byte { return append(good(), Seq(s...)...) } }
	return []hostile{
		{"nothing", func() []byte { return nil }, 1, byVet},
		{"text", func() []byte { return []byte("(module)") }, 1, byVet},
		{"a component", func() []byte { return []byte("\x00asm\x0d\x00\x01\x00") }, 1, byVet},
		{"an executable", func() []byte { return []byte("\x7fELF\x02\x01\x01") }, 1, byVet},
		{"a header alone", raw(), 1, byVet},
		{"a section longer than the module", raw(1, 0xff, 0xff, 0xff, 0xff, 0x0f), 1, byVet},
		{"a count of four billion types", raw(1, 5, 0xff, 0xff, 0xff, 0xff, 0x0f), 1, byVet},
		{"a number of six bytes", raw(1, 6, 0x80, 0x80, 0x80, 0x80, 0x80, 0), 1, byVet},
		{"a section that comes twice", after(Section(11, Op(0))), 1, byVet},
		{"a section out of order", after(Section(1, Op(0))), 1, byVet},
		{"an unknown section", after(Section(13, Op(0))), 1, byVet},
		{"a section cut short", func() []byte { b := good(); return b[:len(b)/2] }, 1, byVet},
		{"a name section that lies", after(Section(0, Seq(Name("name"), Op(1), U32(1<<30)))), 1, answers},
		{"names of four billion functions", after(Section(0, Seq(Name("name"), Section(1, U32(1<<32-1))))), 1, answers},
		{"a custom section of 8 MB", after(Section(0, Seq(Name("junk"), make([]byte, 8*mib)))), 1, answers},
		{"debug information that lies", after(Section(0, Seq(Name(".debug_info"), bytes.Repeat([]byte{0xff}, 4096))), Section(0, Seq(Name(".debug_line"), bytes.Repeat([]byte{0xff}, 4096)))), 1, answers},
		{"a start function", policy(func(m *Module) { i := m.Func("s", Sig(nil), nil, Forever()); m.Start = &i }), 1, byVet},
		{"code that does not type-check", filter(nil, I64Const(1), Op(0x6a)), 1, byCompiler},
		{"a stack that runs empty", filter(nil, Op(0x1a, 0x1a)), 1, byCompiler},
		{"an end too many", filter(nil, Op(0x0b)), 1, byVet},
		{"a branch out of the function", filter(nil, Br(9)), 1, byVet},
		{"a call of no function", filter(nil, Call(9999)), 1, byVet},
		{"no marker", policy(func(m *Module) { m.Drop("berth_abi_v1") }), 1, byVet},
		{"a marker of the next ABI", policy(func(m *Module) { m.Drop("berth_abi_v1").Export("berth_abi_v2", Sig(nil), nil) }), 1, byVet},
		{"a mistyped filter", policy(func(m *Module) { m.Export("berth_filter", Sig(nil, F64), nil, F64Const(1)) }), 1, byVet},
		{"a filter that is a global", policy(func(m *Module) { m.ExportRaw("berth_filter", 3, m.Global(1)) }), 1, byVet},
		{"an import of the system", importing("env", "system", Sig(nil), nil), 1, byVet},
		{"an import of a mistyped log", importing("berth", "log", Sig(nil), nil), 1, byVet},
		{"an import of an unknown WASI", importing("wasi_snapshot_preview1", "sock_open", Sig(nil), nil), 1, byVet},
		{"an import of a memory", policy(func(m *Module) { m.ImportRaw("env", "memory", 2, 0, 1) }), 1, byVet},
		{"an import of a global", policy(func(m *Module) { m.ImportRaw("env", "fuel", 3, I64, 1) }), 1, byVet},
		{"a theft of the counter", policy(func(m *Module) {
			m.Export("berth_filter", givesI64, nil, Forever(I64Const(1<<60), GlobalSet(0)), I64Const(0))
		}), 1, byVet},
		{"an export of the counter", policy(func(m *Module) { m.ExportRaw("fuel", 3, 0) }), 1, byVet},
		{"an export under the counter's name", policy(func(m *Module) { m.ExportRaw("berth:fuel", 3, m.Global(1<<60)) }), 1, byVet},
		{"threads", filter(nil, I32Const(0), Op(0xfe, 0x10, 2, 0, 0x1a)), 1, byVet},
		{"tail calls", filter(nil, Get(0), Op(0x12, 0)), 1, byVet},
		{"exceptions", filter(nil, Op(0x06, Void, 0x0b)), 1, byVet},
		{"a second memory", filter(nil, I32Const(0), Op(0x40, 1, 0x1a)), 1, byVet},
	}
}
