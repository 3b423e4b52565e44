package engine_test

import (
	"bytes"
	"fmt"

	"github.com/berth-dev/berth/host/policy/engine"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// hostile is a module that means harm or does some.
type hostile struct {
	name  string
	build func() []byte
	calls int // of filter; a good answer to all is containment too
	want  outcome
}

// attack is a hostile module with the export in which it does harm.
type attack struct {
	hostile
	f engine.Func
}

// outcome is how a hostile module must end.
type outcome string

const (
	byVet      outcome = "refused by vet"
	byCompiler outcome = "refused by the compiler"
	atLoad     outcome = "fails at load"
	answers    outcome = "answers"
)

func ends(k engine.Kind) outcome { return outcome("fails with " + string(k)) }

var (
	takesI32 = Sig([]byte{I32})
	givesI64 = Sig([]byte{I32}, I64)
	logType  = Sig([]byte{I32, I32, I32})
)

// filter is a policy whose berth_filter does this.
func filter(locals []byte, code ...[]byte) func() []byte {
	return func() []byte {
		m := Policy()
		m.Export("berth_filter", givesI64, locals, Seq(code...), I64Const(InputAt<<32))
		return m.Bytes()
	}
}

// policy is a policy to which something is done before it is assembled.
func policy(do func(m *Module)) func() []byte {
	return func() []byte {
		m := Policy()
		do(m)
		return m.Bytes()
	}
}

// wasiPolicy imports one function of WASI or of the SDK, as function 0.
func importing(from, name string, t Type, locals []byte, code ...[]byte) func() []byte {
	return func() []byte {
		m := Policy(Import{From: from, Name: name, Type: t})
		m.Export("berth_filter", givesI64, locals, Seq(code...), I64Const(InputAt<<32))
		return m.Bytes()
	}
}

func answering(packed uint64) func() []byte {
	return policy(func(m *Module) { m.Export("berth_filter", givesI64, nil, I64Const(int64(packed))) })
}

const mib = 1 << 20

// chase makes each load wait for the one before it, all over a memory that the
// module has from the start.
func chase(megabytes uint32) func() []byte {
	last := int32(megabytes*mib - 1)
	return policy(func(m *Module) {
		m.Memory = &[2]uint32{megabytes * 16, 1024}
		m.Export("_initialize", Sig(nil), []byte{I32, I32, I32},
			I32Const(last/256), Set(2),
			Loop(Void, Get(0), Get(0), I32Const(40*4096+64), Op(0x6a), I32Const(last-63), Op(0x71), Tee(1), Store32(0), Get(1), Set(0),
				Get(2), I32Const(1), Op(0x6b), Tee(2), BrIf(0)))
		m.Export("berth_filter", givesI64, []byte{I32}, Forever(Times(100, Get(1), Load32(0), Set(1))), I64Const(0))
	})
}

// grown makes the guest's memory as large as it may be.
var grown = Seq(I32Const(1023), Op(0x40, 0, 0x1a))

func spinning() []hostile {
	i32s := []byte{I32, I32, I32}
	drop := Op(0x1a)
	return []hostile{
		{"a loop without end", filter(nil, Forever()), 1, ends(engine.FuelSpent)},
		{"a loop in a loop", filter(nil, Forever(Loop(Void, I32Const(1), BrIf(1)))), 1, ends(engine.FuelSpent)},
		{"a loop by a conditional branch", filter(nil, Loop(Void, I32Const(1), BrIf(0))), 1, ends(engine.FuelSpent)},
		{"a loop by a branch table", filter(nil, Loop(Void, Get(0), Op(0x0e, 1, 0, 0))), 1, ends(engine.FuelSpent)},
		{"a loop over many small blocks", filter(nil, Forever(Times(200, Block(Void, Get(0), BrIf(0), Get(0), drop)))), 1, ends(engine.FuelSpent)},
		{"a loop of a long straight line", filter(i32s, Forever(Times(20000, Get(1), I32Const(7), Op(0x6c), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of divisions", filter([]byte{I64}, I64Const(-1), Set(1), Forever(Times(50, I64Const(-3), Get(1), I64Const(3), Op(0x84, 0x80), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of square roots", filter([]byte{F64}, Forever(Times(50, Get(1), Op(0x9f), F64Const(2), Op(0xa0), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of float divisions", filter([]byte{F64}, Forever(Times(50, F64Const(1e-300), Get(1), Op(0xa3), F64Const(1e-310), Op(0xa0), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of roundings", filter([]byte{F64}, Forever(Times(50, Get(1), Op(0x9e, 0x9b), F64Const(0.3), Op(0xa0), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of float minima", filter([]byte{F64}, Forever(Times(50, Get(1), F64Const(0.3), Op(0xa4), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of conversions", filter([]byte{F64}, Forever(Times(50, Get(1), Op(0xfc, 7, 0xba), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of multiplications", filter([]byte{I64}, Forever(Times(50, Get(1), Get(1), Op(0x7e), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of bit counts", filter([]byte{I64}, Forever(Times(50, Get(1), Op(0x79, 0x7b), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of vectors", filter([]byte{0x7b}, Forever(Times(50, Get(1), Get(1), Op(0xfd, 0xd5, 0x01), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of vector shuffles", filter([]byte{0x7b}, Forever(Times(50, Get(1), Get(1), Op(0xfd, 13), bytes.Repeat([]byte{9}, 16), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of vector square roots", filter([]byte{0x7b}, Forever(Times(50, Get(1), Op(0xfd, 0xef, 0x01), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a loop of globals", policy(func(m *Module) {
			g := m.Global(1)
			m.Export("berth_filter", givesI64, nil, Forever(Times(50, GlobalGet(g), I64Const(1), Op(0x7c), GlobalSet(g))), I64Const(0))
		}), 1, ends(engine.FuelSpent)},
		{"loads at random over all of memory", policy(func(m *Module) {
			m.Memory = &[2]uint32{1024, 1024}
			m.Export("berth_filter", givesI64, i32s, Forever(Times(10,
				Get(1), I32Const(1664525), Op(0x6c), I32Const(1013904223), Op(0x6a), Tee(1), I32Const(67108856), Op(0x71), Load32(0), Get(1), Op(0x6a), Set(1))), I64Const(0))
		}), 1, ends(engine.FuelSpent)},
		{"stores at every page", policy(func(m *Module) {
			m.Memory = &[2]uint32{1024, 1024}
			m.Export("berth_filter", givesI64, i32s, Forever(
				Get(1), I32Const(4096), Op(0x6a), I32Const(67108863-4095), Op(0x71), Tee(1), I64Const(1), Store64(0)), I64Const(0))
		}), 1, ends(engine.FuelSpent)},
		{"growth as far as the budget goes, then a chase", filter([]byte{I32, I32},
			I32Const(127), Op(0x40, 0, 0x1a),
			Loop(Void, Get(1), Get(1), I32Const(40*4096+64), Op(0x6a), I32Const(8*mib-64), Op(0x71), Tee(2), Store32(0), Get(2), Tee(1), BrIf(0)),
			Forever(Times(100, Get(1), Load32(0), Set(1)))), 1, ends(engine.FuelSpent)},
		{"a chase of pointers over 4 MiB", chase(4), 1, ends(engine.FuelSpent)},
		{"a chase of pointers over 8 MiB", chase(8), 1, ends(engine.FuelSpent)},
		{"a chase of pointers over 16 MiB", chase(16), 1, ends(engine.FuelSpent)},
		{"a chase of pointers over 32 MiB", chase(32), 1, ends(engine.FuelSpent)},
		{"a chase of pointers over 64 MiB", chase(64), 1, ends(engine.FuelSpent)},
		{"straight stores at every page", policy(func(m *Module) {
			m.Memory = &[2]uint32{1024, 1024}
			m.Export("berth_filter", givesI64, []byte{I32}, Times(16000, Get(1), I64Const(1), Store64(0), Get(1), I32Const(4096), Op(0x6a), Set(1)), I64Const(0))
		}), 3, answers},
		{"a spin in _initialize", policy(func(m *Module) { m.Export("_initialize", Sig(nil), nil, Forever()) }), 1, atLoad},
		{"a spin in berth_manifest", policy(func(m *Module) {
			m.Export("berth_manifest", Sig(nil, I64), nil, Forever(), I64Const(0))
		}), 1, atLoad},
		{"a spin in berth_input", policy(func(m *Module) {
			m.Export("berth_input", Sig([]byte{I32}, I32), nil, Forever(), I32Const(0))
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, ends(engine.FuelSpent)},
	}
}

func calling() []hostile {
	tree := func(indirect bool) func() []byte {
		return policy(func(m *Module) {
			m.Sizes = []uint32{64}
			leaf := m.Func("leaf", Sig(nil), nil)
			last := leaf
			m.Elem = append(m.Elem, leaf)
			for n := range 40 {
				call := Call(last)
				if indirect {
					call = Seq(I32Const(int32(n)), Op(0x11), U32(m.Type(Sig(nil))), Op(0))
				}
				last = m.Func(fmt.Sprint("level", n), Sig(nil), nil, call, call)
				m.Elem = append(m.Elem, last)
			}
			m.Export("berth_filter", givesI64, nil, Call(last), I64Const(0))
		})
	}
	recursive := func(locals int, t byte) func() []byte {
		return policy(func(m *Module) {
			self := m.Func("first", Sig(nil), nil) + 1
			var use [][]byte
			for i := range locals {
				use = append(use, GlobalGet(m.Global(int64(i))), Set(uint32(i)))
			}
			use = append(use, Call(self))
			for i := range locals {
				use = append(use, Get(uint32(i)), GlobalSet(uint32(i)))
			}
			m.Func("again", Sig(nil), bytes.Repeat([]byte{t}, locals), use...)
			m.Export("berth_filter", givesI64, nil, Call(self), I64Const(0))
		})
	}
	return []hostile{
		{"a tree of 2^40 calls without a loop", tree(false), 1, ends(engine.FuelSpent)},
		{"a tree of 2^40 indirect calls", tree(true), 1, ends(engine.FuelSpent)},
		{"recursion without end", recursive(0, I64), 1, ends(engine.StackSpent)},
		{"recursion with large frames", recursive(500, I64), 1, ends(engine.StackSpent)},
		{"recursion with a deep operand stack", policy(func(m *Module) {
			self := m.Func("x", Sig(nil), nil) + 1
			g := m.Global(1)
			m.Func("deep", Sig(nil), nil, Times(5000, GlobalGet(g), I64Const(1), Op(0x7c)), Call(self), Times(5000, GlobalSet(g)))
			m.Export("berth_filter", givesI64, nil, Call(self), I64Const(0))
		}), 1, ends(engine.StackSpent)},
		{"recursion by turns", policy(func(m *Module) {
			a := m.Func("x", Sig(nil), nil) + 1
			m.Func("a", Sig(nil), nil, Call(a+1))
			m.Func("b", Sig(nil), nil, Call(a))
			m.Export("berth_filter", givesI64, nil, Call(a), I64Const(0))
		}), 1, ends(engine.StackSpent)},
		{"recursion through a table", policy(func(m *Module) {
			m.Sizes = []uint32{1}
			f := m.Func("f", Sig(nil), nil, I32Const(0), Op(0x11), U32(m.Type(Sig(nil))), Op(0))
			m.Elem = []uint32{f}
			m.Export("berth_filter", givesI64, nil, Call(f), I64Const(0))
		}), 1, ends(engine.StackSpent)},
		{"calls with 60 parameters", policy(func(m *Module) {
			p := bytes.Repeat([]byte{I64}, 60)
			self := m.Func("x", Sig(nil), nil) + 1
			var args []byte
			for i := range 60 {
				args = append(args, Get(uint32(i))...)
			}
			m.Func("wide", Sig(p), nil, args, Call(self))
			m.Export("berth_filter", givesI64, nil, Times(60, I64Const(1)), Call(self), I64Const(0))
		}), 1, ends(engine.StackSpent)},
	}
}

func hungry() []hostile {
	drop := Op(0x1a)
	whole := Seq(I32Const(0), I32Const(0), I32Const(64*mib))
	fill, cp := Op(0xfc, 11, 0), Op(0xfc, 10, 0, 0)
	tables := func(code ...[]byte) func() []byte {
		return policy(func(m *Module) {
			m.Sizes = []uint32{65536}
			m.Elem = make([]uint32, 1000)
			m.Export("berth_filter", givesI64, nil, Forever(code...), I64Const(0))
		})
	}
	return []hostile{
		{"a loop of memory.grow by nothing", filter(nil, Forever(I32Const(0), Op(0x40, 0), drop)), 1, ends(engine.FuelSpent)},
		{"a loop of memory.grow by one", filter(nil, Forever(I32Const(1), Op(0x40, 0), drop)), 1, ends(engine.FuelSpent)},
		{"a straight line of memory.grow", filter(nil, Times(100000, I32Const(0), Op(0x40, 0), drop)), 1, byVet},
		{"a straight line of memory.grow up to the limit", filter(nil, Times(900, I32Const(1), Op(0x40, 0), drop)), 1, ends(engine.FuelSpent)},
		{"memory.grow by 4 GiB", filter(nil, I32Const(-1), Op(0x40, 0), drop), 1, ends(engine.FuelSpent)},
		{"memory.grow beyond the cap", filter(nil, I32Const(1024), Op(0x40, 0), drop), 1, ends(engine.FuelSpent)},
		{"a straight line of memory.fill", filter(nil, grown, Times(20000, whole, fill)), 1, byVet},
		{"a straight line of memory.fill up to the limit", filter(nil, grown, Times(900, whole, fill)), 1, ends(engine.FuelSpent)},
		{"a loop of memory.fill", filter(nil, grown, Forever(whole, fill)), 1, ends(engine.FuelSpent)},
		{"a loop of memory.copy", filter(nil, grown, Forever(I32Const(1), I32Const(0), I32Const(32*mib), cp)), 1, ends(engine.FuelSpent)},
		{"a loop of small memory.copy", filter(nil, Forever(Times(100, I32Const(1), I32Const(0), I32Const(9), cp))), 1, ends(engine.FuelSpent)},
		{"a loop of memory.fill of nothing", filter(nil, Forever(Times(100, I32Const(0), I32Const(0), I32Const(0), fill))), 1, ends(engine.FuelSpent)},
		{"memory.fill out of range", filter(nil, I32Const(1), I32Const(0), I32Const(-1), fill), 1, ends(engine.FuelSpent)},
		{"memory.fill a little out of range", filter(nil, I32Const(65000), I32Const(0), I32Const(1000), fill), 1, ends(engine.Trap)},
		{"a loop of memory.init", policy(func(m *Module) {
			m.Passive(make([]byte, 60000))
			m.Export("berth_filter", givesI64, nil, Forever(I32Const(0), I32Const(0), I32Const(60000), Op(0xfc, 8, 1, 0)), I64Const(0))
		}), 1, ends(engine.FuelSpent)},
		{"a loop of table.fill", tables(I32Const(0), Op(0xd0, 0x70), I32Const(65536), Op(0xfc, 17, 0)), 1, ends(engine.FuelSpent)},
		{"a loop of table.copy", tables(I32Const(0), I32Const(1), I32Const(65535), Op(0xfc, 14, 0, 0)), 1, ends(engine.FuelSpent)},
		{"a loop of table.set", tables(Times(50, I32Const(1), Op(0xd2, 0, 0x26, 0))), 1, byCompilerOr(ends(engine.FuelSpent))},
		{"a loop of ref.func", policy(func(m *Module) {
			m.Export("berth_filter", givesI64, nil, Forever(Times(50, Op(0xd2, 0, 0x1a))), I64Const(0))
		}), 1, ends(engine.FuelSpent)},
		{"two million references in element segments", policy(func(m *Module) {
			m.Sizes = []uint32{1}
			m.Elements = make([][]uint32, 40)
			for i := range m.Elements {
				m.Elements[i] = make([]uint32, 50_000)
			}
		}), 1, byVet},
		{"table.grow", policy(func(m *Module) {
			m.Sizes = []uint32{1}
			m.Export("berth_filter", givesI64, nil, Op(0xd0, 0x70), I32Const(1<<30), Op(0xfc, 15, 0, 0x1a), I64Const(0))
		}), 1, byVet},
		{"a table of four billion", policy(func(m *Module) { m.Sizes = []uint32{1<<32 - 1} }), 1, byVet},
		{"a thousand tables", policy(func(m *Module) { m.Sizes = make([]uint32, 1000) }), 1, byVet},
		{"a memory of 4 GiB", policy(func(m *Module) { m.Memory = &[2]uint32{65536, 65536} }), 1, byVet},
		{"a memory that may grow to 4 GiB", policy(func(m *Module) {
			m.Memory = &[2]uint32{1020, 65536}
			m.Export("berth_filter", givesI64, nil, I32Const(8), Op(0x40, 0), I32Const(-1), Op(0x47), If(Void, Op(0)), I64Const(0))
		}), 1, answers},
		{"data outside of memory", policy(func(m *Module) { m.Data(1<<30, []byte("x")) }), 1, atLoad},
		{"functions outside of the table", policy(func(m *Module) { m.Sizes, m.Elem = []uint32{1}, make([]uint32, 50) }), 1, ""},
	}
}

// byCompilerOr leaves a module's end to what the compiler's rules say.
func byCompilerOr(outcome) outcome { return "" }

func chatty() []hostile {
	i32s := func(n int) []byte { return bytes.Repeat([]byte{I32}, n) }
	wasi := "wasi_snapshot_preview1"
	drop := Op(0x1a)
	return []hostile{
		{"a flood of log lines", importing("berth", "log", logType, nil, Forever(I32Const(1), I32Const(64), I32Const(20), Call(0))), 1, ends(engine.FuelSpent)},
		{"a straight line of log lines", importing("berth", "log", logType, nil, Times(30000, I32Const(1), I32Const(64), I32Const(1000), Call(0))), 1, ends(engine.FuelSpent)},
		{"a log line of 1 GB", importing("berth", "log", logType, nil, I32Const(1), I32Const(64), I32Const(1<<30), Call(0)), 3, answers},
		{"a log line outside of memory", importing("berth", "log", logType, nil, I32Const(1), I32Const(-9), I32Const(100), Call(0)), 3, answers},
		{"a log line of no UTF-8", importing("berth", "log", logType, nil, I32Const(8), I32Const(64), I32Const(-128), Op(0x3a, 0, 0), I32Const(1), I32Const(8), I32Const(9), Call(0), drop2), 1, byCompilerOr("")},
		{"a log line of an unknown level", importing("berth", "log", logType, nil, I32Const(-1), I32Const(64), I32Const(8), Call(0)), 3, answers},
		{"a flood of writes", importing(wasi, "fd_write", Sig(i32s(4), I32), nil, I32Const(8), I32Const(4096), Store32(0), I32Const(12), I32Const(50000), Store32(0),
			Forever(I32Const(1), I32Const(8), I32Const(1), I32Const(0), Call(0), drop)), 1, ends(engine.FuelSpent)},
		{"a write of four billion vectors", importing(wasi, "fd_write", Sig(i32s(4), I32), nil, I32Const(1), I32Const(8), I32Const(-1), I32Const(0), Call(0), drop), 3, answers},
		{"a write whose vectors lie outside", importing(wasi, "fd_write", Sig(i32s(4), I32), nil, I32Const(1), I32Const(-8), I32Const(60), I32Const(-1), Call(0), drop), 3, answers},
		{"a write to a file", importing(wasi, "fd_write", Sig(i32s(4), I32), nil, I32Const(5), I32Const(8), I32Const(1), I32Const(0), Call(0), drop), 3, answers},
		{"a loop of random numbers", importing(wasi, "random_get", Sig(i32s(2), I32), nil, Forever(I32Const(0), I32Const(65536), Call(0), drop)), 1, ends(engine.FuelSpent)},
		{"random numbers outside of memory", importing(wasi, "random_get", Sig(i32s(2), I32), nil, I32Const(65000), I32Const(65536), Call(0), drop), 3, answers},
		{"a wait on the clock", importing(wasi, "clock_time_get", Sig([]byte{I32, I64, I32}, I32), nil, Forever(I32Const(1), I64Const(0), I32Const(0), Call(0), drop)), 1, ends(engine.FuelSpent)},
		{"a sleep without end", importing(wasi, "poll_oneoff", Sig(i32s(4), I32), nil, I32Const(24+64), I64Const(-1), Store64(0), Forever(I32Const(64), I32Const(256), I32Const(1), I32Const(0), Call(0), drop)), 1, ends(engine.FuelSpent)},
		{"a poll of four billion events", importing(wasi, "poll_oneoff", Sig(i32s(4), I32), nil, I32Const(0), I32Const(0), I32Const(-1), I32Const(0), Call(0), drop), 3, answers},
		{"a look for files", importing(wasi, "fd_prestat_get", Sig(i32s(2), I32), nil, I32Const(3), I32Const(0), Call(0), I32Const(8), Op(0x47), If(Void, Op(0))), 3, answers},
		{"an end of the process", importing(wasi, "proc_exit", takesI32, nil, I32Const(0), Call(0)), 1, ends(engine.Exited)},
		{"an end of the process in _initialize", func() []byte {
			m := Policy(Import{From: wasi, Name: "proc_exit", Type: takesI32})
			m.Export("_initialize", Sig(nil), nil, I32Const(1), Call(0))
			return m.Bytes()
		}, 1, atLoad},
	}
}

var drop2 = Op(0x01)

func lying() []hostile {
	i32s := []byte{I32}
	return []hostile{
		{"a trap", filter(nil, Op(0)), 1, ends(engine.Trap)},
		{"a division by zero", filter(nil, I32Const(1), I32Const(0), Op(0x6d, 0x1a)), 1, ends(engine.Trap)},
		{"an overflow of a division", filter(nil, I32Const(-1<<31), I32Const(-1), Op(0x6d, 0x1a)), 1, ends(engine.Trap)},
		{"a conversion of NaN", filter(nil, F64Const(0), F64Const(0), Op(0xa3, 0xaa, 0x1a)), 1, ends(engine.Trap)},
		{"a load outside of memory", filter(nil, I32Const(-1), Load32(0), Op(0x1a)), 1, ends(engine.Trap)},
		{"a load by a large offset", filter(nil, I32Const(-1), Load32(1<<32-1), Op(0x1a)), 1, ends(engine.Trap)},
		{"an indirect call outside of the table", policy(func(m *Module) {
			m.Sizes = []uint32{1}
			m.Export("berth_filter", givesI64, nil, I32Const(7), Op(0x11), U32(m.Type(Sig(nil))), Op(0), I64Const(0))
		}), 1, ends(engine.Trap)},
		{"an indirect call of another type", policy(func(m *Module) {
			m.Sizes, m.Elem = []uint32{1}, []uint32{1}
			m.Export("berth_filter", givesI64, nil, I32Const(0), Op(0x11), U32(m.Type(Sig(nil))), Op(0), I64Const(0))
		}), 1, ends(engine.Trap)},
		{"an answer outside of memory", answering(1<<62 | 10), 1, ends(engine.BadAnswer)},
		{"an answer that runs out of memory", answering(65530<<32 | 100), 1, ends(engine.BadAnswer)},
		{"an answer of 1 GB", answering(InputAt<<32 | 1<<30), 1, ends(engine.BadAnswer)},
		{"an answer of all ones", answering(1<<64 - 1), 1, ends(engine.BadAnswer)},
		{"an answer at the end of memory", answering(65536 << 32), 1, answers},
		{"input outside of memory", policy(func(m *Module) {
			m.Export("berth_input", Sig([]byte{I32}, I32), nil, I32Const(-16))
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, ends(engine.Memory)},
		{"input at nowhere", policy(func(m *Module) {
			m.Export("berth_input", Sig([]byte{I32}, I32), nil, I32Const(0))
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, ends(engine.Memory)},
		{"input that runs out of memory", policy(func(m *Module) {
			m.Export("berth_input", Sig([]byte{I32}, I32), nil, I32Const(65535))
			m.Export("berth_filter", givesI64, nil, I64Const(0))
		}), 1, ends(engine.Memory)},
		{"a manifest of 1 GB", policy(func(m *Module) { m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(64<<32|1<<30)) }), 1, atLoad},
		{"a manifest outside of memory", policy(func(m *Module) { m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(1<<62|9)) }), 1, atLoad},
		{"scores that are no numbers", policy(func(m *Module) {
			m.Data(InputAt, bytes.Repeat([]byte{0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xf8, 0x7f}, 8))
			m.Export("berth_filter", givesI64, nil, I64Const(InputAt<<32|64))
		}), 3, answers},
		{"another answer at each call", policy(func(m *Module) {
			g := m.Global(0)
			m.Export("berth_filter", givesI64, i32s, GlobalGet(g), I64Const(1), Op(0x7c), GlobalSet(g),
				I32Const(InputAt), GlobalGet(g), Store64(0), I64Const(InputAt<<32|8))
		}), 100, answers},
		{"a trap after a million good calls", policy(func(m *Module) {
			g := m.Global(1_000_000)
			m.Export("berth_filter", givesI64, nil, GlobalGet(g), I64Const(-1), Op(0x7c), GlobalSet(g),
				GlobalGet(g), Op(0x50), If(Void, Op(0)), I64Const(0))
		}), 1_000_001, ends(engine.Trap)},
		{"a memory that grows a little at each call", policy(func(m *Module) {
			m.Export("berth_filter", givesI64, nil, I32Const(1), Op(0x40, 0, 0x1a), I64Const(0))
		}), 3000, answers},
		{"no filter", policy(func(*Module) {}), 1, ends(engine.Refused)},
	}
}

// everywhere are lies in each export that answers with a range.
func everywhere() []attack {
	var all []attack
	for _, f := range []engine.Func{engine.FuncScore, engine.FuncWhatIf, engine.FuncReasons, engine.FuncExplain, engine.FuncGate, engine.FuncError, engine.FuncReconcile} {
		takes := Sig([]byte{I32}, I64)
		if f == engine.FuncError {
			takes = Sig(nil, I64)
		}
		for what, packed := range map[string]int64{"outside of memory": 1<<62 | 10, "that runs out of memory": 65530<<32 | 100, "of 1 GB": InputAt<<32 | 1<<30} {
			build := policy(func(m *Module) { m.Export(f.String(), takes, nil, I64Const(packed)) })
			all = append(all, attack{hostile{fmt.Sprintf("an answer of %s %s", f, what), build, 1, ends(engine.BadAnswer)}, f})
		}
	}
	return all
}

// between are modules that wait for the larger budgets outside of a cycle.
func between() []attack {
	chasing := func(export string, params []byte, megabytes uint32) func() []byte {
		last := int32(megabytes*mib - 1)
		return policy(func(m *Module) {
			m.Memory = &[2]uint32{megabytes * 16, 1024}
			m.Export("_initialize", Sig(nil), []byte{I32, I32, I32},
				I32Const(last/256), Set(2),
				Loop(Void, Get(0), Get(0), I32Const(40*4096+64), Op(0x6a), I32Const(last-63), Op(0x71), Tee(1), Store32(0), Get(1), Set(0),
					Get(2), I32Const(1), Op(0x6b), Tee(2), BrIf(0)))
			at := uint32(len(params))
			m.Export(export, Sig(params, I32), []byte{I32}, Forever(Times(100, Get(at), Load32(0), Set(at))), I32Const(0))
		})
	}
	var all []attack
	for _, mb := range []uint32{8, 64} {
		all = append(all,
			attack{hostile{fmt.Sprintf("a chase over %d MiB in berth_idle", mb), chasing("berth_idle", nil, mb), 1, ends(engine.FuelSpent)}, engine.FuncIdle},
			attack{hostile{fmt.Sprintf("a chase over %d MiB in berth_apply", mb), chasing("berth_apply", []byte{I32}, mb), 1, ends(engine.FuelSpent)}, engine.FuncApply})
	}
	return all
}
