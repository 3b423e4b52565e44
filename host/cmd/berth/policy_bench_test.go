package main

import (
	"log/slog"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	sdktest "github.com/berth-dev/berth/sdk/policytest"
)

// Who cannot bear many nodes learns how many, and what it costs with fewer.
func TestABenchSaysOfHowManyNodesAPolicyFails(t *testing.T) {
	t.Parallel()
	e, err := engine.New(t.Context(), engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	b := &bench{ctx: t.Context(), engine: e, sizes: []int{10, 20}, t: &table{head: []string{"POLICY", "NODES"}}}
	r := &sdktest.Recorded{Table: sdktest.Table{Nodes: []sdktest.Node{{Name: "n"}}, Cases: []sdktest.Case{{Name: "any"}}}}
	// It lacks berth_idle, which a measured one is asked for.
	_, err = b.own(policytest.Guest{Name: "Weary", Mask: 1, Refuse: -1}.Bytes(), r)
	if err == nil || !strings.Contains(err.Error(), "Weary, of 10 nodes: ") {
		t.Errorf("it fails by %v", err)
	}
}

// A policy whose rows take more than a question about all of them may is told so,
// and which field of its Policy raises that.
func TestABenchSaysWhenAPolicyWouldNotFit(t *testing.T) {
	t.Parallel()
	e, err := engine.New(t.Context(), engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	const each = 150_000 // of fuel, a row
	dear := policytest.Guest{Name: "Dear", Version: "1", Refuse: -1, Also: func(m *Module) {
		work := Seq(I64Const(each/10), Set(2), Block(Void, Loop(Void,
			Get(2), Op(0x50), BrIf(1), Get(2), I64Const(1), Op(0x7d), Set(2), Br(0))))
		m.Drop("berth_filter").Export("berth_filter", Sig([]byte{I32}, I64), []byte{I32, I64},
			Block(Void, Loop(Void,
				Get(1), Get(0), I32Const(2), Op(0x76), Op(0x4f), BrIf(1),
				work, Get(1), I32Const(1), Op(0x6a), Set(1), Br(0))),
			I64Const(1<<20<<32), Get(0), I32Const(2), Op(0x76), Op(0xad), Op(0x84))
		m.Export("berth_idle", Sig(nil, I32), nil, I32Const(0))
	}}.Bytes()
	for _, tt := range []struct {
		name   string
		limits v1alpha1.PolicyLimits
		unfit  int
	}{
		{"by default", v1alpha1.PolicyLimits{}, 1},
		{"with limits of its own", v1alpha1.PolicyLimits{CallMilliseconds: 40}, 0},
	} {
		b := &bench{ctx: t.Context(), engine: e, sizes: []int{10, 3000}, limits: tt.limits, t: &table{head: []string{"POLICY", "NODES"}}}
		r := &sdktest.Recorded{Table: sdktest.Table{Nodes: []sdktest.Node{{Name: "n"}}, Cases: []sdktest.Case{{Name: "any"}}}}
		if _, err := b.own(dear, r); err != nil {
			t.Fatalf("%s: %v", tt.name, err)
		}
		if len(b.unfit) != tt.unfit || tt.unfit > 0 && !strings.Contains(b.unfit[0], "Dear would fail on 3000 nodes: ") {
			t.Errorf("%s: it says %q, want %d sizes that do not fit", tt.name, b.unfit, tt.unfit)
		}
		for _, line := range b.unfit {
			if !strings.Contains(line, "spec.limits.callMilliseconds") {
				t.Errorf("%s: %q does not name the field", tt.name, line)
			}
		}
	}
}
