package vet_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"
	"github.com/tetratelabs/wazero/api"

	"github.com/berth-dev/berth/host/policy/vet"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// rewritten is a module as vet writes it, with fuel for all it does.
func rewritten(t *testing.T, m *Module) api.Module {
	t.Helper()
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigCompiler())
	t.Cleanup(func() { _ = r.Close(ctx) })
	g := grant(t, r)
	g.slice = 1 << 40
	out, _, err := vet.Rewrite(m.Bytes(), vet.Limits{})
	check(t, err)
	i, err := r.InstantiateWithConfig(ctx, out, wazero.NewModuleConfig().WithName("").WithStartFunctions())
	check(t, err)
	return i
}

var oneI64 = Sig(nil, I64)

// keepRef puts a reference to a function into the table's only place, and callRef
// calls what stands there.
func keepRef(f uint32) []byte { return Seq(I32Const(0), Op(opRefFunc), U32(f), Op(0x26, 0)) }

func callRef(m *Module, t Type) []byte { return Seq(I32Const(0), Op(0x11), U32(m.Type(t)), Op(0)) }

const opRefFunc = 0xd2

func TestAReferenceInCodeIsToTheSameFunction(t *testing.T) {
	t.Parallel()
	m := Policy()
	m.Sizes = []uint32{1}
	m.Export("before", oneI64, nil, I64Const(1))
	own := m.Export("own", oneI64, nil, I64Const(2))
	m.Export("after", oneI64, nil, I64Const(3))
	m.Export("run", oneI64, nil, keepRef(own), callRef(m, oneI64))
	got, err := rewritten(t, m).ExportedFunction("run").Call(context.Background())
	check(t, err)
	if got[0] != 2 {
		t.Errorf("the function that a reference is to answers %d, want 2", got[0])
	}
}

// TestAReferenceIsToEachFunctionItNames has references in code to an import, to
// functions before and behind, and to one of them twice.
func TestAReferenceIsToEachFunctionItNames(t *testing.T) {
	t.Parallel()
	m := Policy()
	m.Sizes = []uint32{1}
	m.Global(1)
	var own []uint32
	for n := range int64(3) {
		own = append(own, m.Export(string('a'+rune(n)), oneI64, nil, I64Const(1+n)))
	}
	call := func(f uint32) []byte { return Seq(I64Const(10), Op(0x7e), keepRef(f), callRef(m, oneI64), Op(0x7c)) }
	m.Export("run", oneI64, nil, I64Const(0), call(own[2]), call(own[0]), call(own[1]), call(own[2]))
	got, err := rewritten(t, m).ExportedFunction("run").Call(context.Background())
	check(t, err)
	if got[0] != 3123 {
		t.Errorf("the functions answer %d, want 3123", got[0])
	}
}

func TestRecursionByAReferenceInCodeTakesStack(t *testing.T) {
	t.Parallel()
	m := Policy()
	m.Sizes = []uint32{1}
	self := m.Export("again", oneI64, nil, callRef(m, oneI64))
	m.Export("run", oneI64, nil, keepRef(self), callRef(m, oneI64))
	i := rewritten(t, m)
	_, err := i.ExportedFunction("run").Call(context.Background())
	if left := int64(i.ExportedGlobal(vet.StackExport).Get()); err == nil || left >= 0 {
		t.Errorf("run = %v with %d bytes of stack left, want it to come to the stack's end", err, left)
	}
}
