// Package policytest assembles policies by hand, for tests of the life that they
// lead: they compile in no time, and do wrong when told to.
package policytest

import (
	"fmt"

	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// Guest is one policy. It reads what pods request, and nodes' labels and names, and
// takes in whatever it is told.
type Guest struct {
	Name, Version, Kind string
	// A predicate refuses the rows for which row&mask == refuse; -1 is none.
	Mask, Refuse int32
	// A priority scores row*times.
	Times int64
	// Traps says after how many filter or score calls it traps, 0 for never;
	// Spins has it spin instead.
	Traps int64
	Spins bool
	// Rows are as many as a predicate can take: it traps at those beyond; 0 is any.
	Rows int32
	// BadOpen has it refuse its config, badApply the cluster's state.
	BadOpen, BadApply bool
	// Schema is of its config.
	Schema string
	// Also does more to the module, last of all.
	Also func(m *Module)
}

const (
	outAt     = 1 << 20
	reasonsAt = 2048
)

// Bytes is the module.
func (g Guest) Bytes() []byte {
	if g.Kind == "" {
		g.Kind = "predicate"
	}
	if g.Schema == "" {
		g.Schema = "{}"
	}
	scope := "row"
	if g.Times != 0 || g.Mask != 0 && g.Refuse >= 0 {
		scope = "set" // only such a one's rows are the host's slots
	}
	manifest := fmt.Sprintf(`{"abi":1,"module":"made","version":%q,"policies":[{"name":%q,"kind":%q,"reads":["pod.requests","node.labels","node.name"],"scope":%q,"normalize":"none","configSchema":%s,"conditionTypes":["made"]}]}`,
		g.Version, g.Name, g.Kind, scope, g.Schema)
	reasons := fmt.Sprintf(`[{"text":"version %s says no"}]`, g.Version)
	m := Policy().Drop("berth_manifest").Drop("berth_open")
	m.Memory = &[2]uint32{64, 1024}
	m.Data(ManifestAt, []byte(manifest))
	m.Data(reasonsAt, []byte(reasons))
	m.Export("berth_manifest", Sig(nil, I64), nil, I64Const(ManifestAt<<32|int64(len(manifest))))
	m.Export("berth_open", Sig([]byte{I32}, I32), nil, I32Const(flag(g.BadOpen)))
	m.Export("berth_apply", Sig([]byte{I32}, I32), nil, I32Const(flag(g.BadApply)))
	m.Export("berth_pod", Sig([]byte{I32}, I64), nil, I64Const(0))
	m.Export("berth_reasons", Sig([]byte{I32}, I64), nil, I64Const(reasonsAt<<32|int64(len(reasons))))
	refuses := "version " + g.Version + " refuses"
	m.Data(reasonsAt+1024, []byte(refuses))
	m.Export("berth_error", Sig(nil, I64), nil, I64Const((reasonsAt+1024)<<32|int64(len(refuses))))
	calls := m.Global(0)
	fault := Seq(GlobalGet(calls), I64Const(1), Op(0x7c), GlobalSet(calls),
		GlobalGet(calls), I64Const(g.Traps), Op(0x55), If(Void, Op(0)))
	switch {
	case g.Traps == 0:
		fault = nil
	case g.Spins:
		fault = Seq(GlobalGet(calls), I64Const(1), Op(0x7c), GlobalSet(calls),
			GlobalGet(calls), I64Const(g.Traps), Op(0x55), If(Void, Forever()))
	}
	row := Seq(Get(1), I32Const(2), Op(0x74), Load32(InputAt)) // the i-th row
	verdict := Seq(I32Const(outAt), Get(1), Op(0x6a), row, I32Const(g.Mask), Op(0x71), I32Const(g.Refuse), Op(0x46), Op(0x3a, 0, 0))
	if g.Rows > 0 {
		verdict = Seq(row, I32Const(g.Rows), Op(0x4f), If(Void, Op(0)), verdict)
	}
	m.Export("berth_filter", Sig([]byte{I32}, I64), []byte{I32}, fault, eachRow(verdict), answer(0))
	score := Seq(I32Const(outAt), Get(1), I32Const(3), Op(0x74), Op(0x6a), row, Op(0xad), I64Const(g.Times), Op(0x7e), Store64(0))
	m.Export("berth_score", Sig([]byte{I32}, I64), []byte{I32}, fault, eachRow(score), answer(3))
	if g.Also != nil {
		g.Also(m)
	}
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
