package policy_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// TestLiesAreContained gives the host answers of the right shape, or nearly,
// that cannot be true. A predicate then refuses, a priority is passed over, and
// what the others say stays as it was.
func TestLiesAreContained(t *testing.T) {
	t.Parallel()
	const at = 3 << 20 // where lies lie
	gives, takes := Sig([]byte{I32}, I64), []byte{I32}
	constant := func(export string, packed int64) func(*Module) {
		return func(m *Module) { m.Export(export, gives, nil, I64Const(packed)) }
	}
	bytesAt := func(export string, b []byte) func(*Module) {
		return func(m *Module) {
			m.Data(at, b)
			m.Export(export, gives, nil, I64Const(at<<32|int64(len(b))))
		}
	}
	nodes := 8
	refusesAll := guest{Refuse: 0} // row&0 == 0
	for name, lie := range map[string]struct {
		guest  guest
		also   func(*Module)
		placed bool
	}{
		"a pod's answer of an unknown kind":       {guest{Refuse: -1}, constant("berth_pod", 77), false},
		"a pod's refusal for no reason":           {guest{Refuse: -1}, constant("berth_pod", int64(abi.AskRefuse)), false},
		"a pod's refusal for a reason not there":  {guest{Refuse: -1}, constant("berth_pod", int64(abi.AskRefuse)|200<<8), false},
		"too few verdicts":                        {guest{}, bytesAt("berth_filter", make([]byte, nodes-1)), false},
		"too many verdicts":                       {guest{}, bytesAt("berth_filter", make([]byte, nodes+1)), false},
		"verdicts for reasons not there":          {guest{}, bytesAt("berth_filter", bytes.Repeat([]byte{255}, nodes)), false},
		"verdicts outside of memory":              {guest{}, constant("berth_filter", 1<<62|int64(nodes)), false},
		"verdicts of 1 GB":                        {guest{}, constant("berth_filter", at<<32|1<<30), false},
		"reasons of 1 GB":                         {refusesAll, constant("berth_reasons", at<<32|1<<30), false},
		"reasons outside of memory":               {refusesAll, constant("berth_reasons", 1<<62|64), false},
		"reasons that are no JSON":                {refusesAll, bytesAt("berth_reasons", []byte("because")), false},
		"reasons of invalid UTF-8":                {refusesAll, bytesAt("berth_reasons", []byte("[{\"text\":\"\xff\xfe\x1b[2J\"}]")), false},
		"an empty table of reasons":               {refusesAll, bytesAt("berth_reasons", []byte("[]")), false},
		"a thousand reasons":                      {refusesAll, bytesAt("berth_reasons", []byte("["+strings.Repeat(`{"text":"x"},`, 999)+`{"text":"x"}]`)), false},
		"scores that are no numbers":              {guest{Kind: "priority"}, bytesAt("berth_score", bytes.Repeat([]byte{0, 0, 0, 0, 0, 0, 0xf8, 0x7f}, nodes)), true},
		"the least and the greatest scores":       {guest{Kind: "priority"}, bytesAt("berth_score", append(bytes.Repeat([]byte{0xff}, 8*nodes-8), 0, 0, 0, 0, 0, 0, 0, 0x80)), true},
		"half a score":                            {guest{Kind: "priority"}, bytesAt("berth_score", make([]byte, 8*nodes-4)), true},
		"scores outside of memory":                {guest{Kind: "priority"}, constant("berth_score", 1<<62|int64(8*nodes)), true},
		"a failure whose text lies outside of it": {guest{Refuse: -1, BadApply: true}, func(m *Module) { m.Export("berth_error", Sig(nil, I64), nil, I64Const(1<<62|64)) }, false},
		"a failure whose text is of invalid UTF-8": {guest{Refuse: -1, BadApply: true}, func(m *Module) {
			m.Data(at, []byte("\xff\x1b[2J"))
			m.Export("berth_error", Sig(nil, I64), nil, I64Const(at<<32|5))
		}, false},
		"a failure while it tells of its failure":   {guest{Refuse: -1, BadApply: true}, func(m *Module) { m.Export("berth_error", Sig(nil, I64), nil, Forever(), I64Const(0)) }, false},
		"a spin while the host tells of the nodes":  {guest{Refuse: -1}, func(m *Module) { m.Export("berth_apply", Sig(takes, I32), nil, Forever(), I32Const(0)) }, false},
		"a spin while the host is between cycles":   {guest{Refuse: -1}, func(m *Module) { m.Export("berth_idle", Sig(nil, I32), nil, Forever(), I32Const(0)) }, false},
		"a spin while the host asks about the pod":  {guest{Refuse: -1}, func(m *Module) { m.Export("berth_pod", gives, nil, Forever(), I64Const(0)) }, false},
		"a spin while the host asks for the reason": {refusesAll, func(m *Module) { m.Export("berth_reasons", gives, nil, Forever(), I64Const(0)) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.withNodes(nodes)
			g := lie.guest
			g.Name, g.Version, g.Also = "liar", "1", lie.also
			if g.Kind == "" {
				g.Kind = "predicate"
			}
			r.put(t, "liar", module(r.upload(t, g.Bytes())))
			r.join(t, "liar", g.Kind)
			got := r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
			if placed := !strings.Contains(got, "Slot:-1"); placed != lie.placed {
				t.Errorf("the pod is placed: %v, want %v: %s", placed, lie.placed, got)
			}
			if strings.ContainsRune(got, '\x1b') || strings.Contains(got, "\xff") {
				t.Errorf("it says %q", got)
			}
			r.put(t, "liar", func(s *v1alpha1.PolicySpec) { s.Mode = v1alpha1.Off })
			if got := r.decide(t, clustertest.Pod("q", "10m", "1Mi", nil)); strings.Contains(got, "Slot:-1") {
				t.Errorf("with the liar off the pod finds no node: %s", got)
			}
		})
	}
}
