package policy_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/policy/wire"
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
		"a spin while the host is between cycles":   {guest{Refuse: -1}, func(m *Module) { m.Export("berth_idle", Sig(nil, I32), nil, Forever(), I32Const(0)) }, true},
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
			r.put(t, "liar", withModule(r.upload(t, g.Bytes())))
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

// TestLiesOfGatesAndControllersAreContained gives the host answers that cannot be
// true from those who decide nothing about nodes. Each is refused, and the guest
// thrown away.
func TestLiesOfGatesAndControllersAreContained(t *testing.T) {
	t.Parallel()
	const at, manifestAt = 3 << 20, 3<<20 + 1<<16
	gives := Sig([]byte{I32}, I64)
	constant := func(packed int64) func(*Module, string) {
		return func(m *Module, export string) { m.Export(export, gives, nil, I64Const(packed)) }
	}
	said := func(text string) func(*Module, string) {
		return func(m *Module, export string) {
			m.Data(at, []byte(text))
			m.Export(export, gives, nil, I64Const(at<<32|int64(len(text))))
		}
	}
	reconciler := func(m *Module) {
		manifest := `{"abi":1,"module":"made","version":"1","policies":[{"name":"liar","kind":"controller","parent":{"apiVersion":"v1","kind":"ConfigMap","fields":["data"]},"children":[{"apiVersion":"v1","kind":"Secret","fields":["data"]}]}]}`
		m.Data(manifestAt, []byte(manifest))
		m.Drop("berth_manifest").Export("berth_manifest", Sig(nil, I64), nil, I64Const(manifestAt<<32|int64(len(manifest))))
	}
	pods := []wire.GatePod{{Condition: "made", Pod: clustertest.Pod("p", "10m", "1Mi", nil)}}
	for kind, lies := range map[string]map[string]func(*Module, string){
		"gate": {
			"a status that is none":     said(`[{"status":"Maybe"}]`),
			"a status in small letters": said(`[{"status":"true"}]`),
			"no answer":                 said(`[]`),
			"an answer too many":        said(`[{"status":"True"},{"status":"True"}]`),
			"to be asked in the past":   said(`[{"status":"True","requeueAfterNanos":-1}]`),
			"a number beyond all":       said(`[{"status":"True","requeueAfterNanos":1e400}]`),
			"no JSON":                   said("yes"),
			"an answer cut short":       said(`[{"status":"True"`),
			"deep nesting":              said(strings.Repeat("[", 20_000)),
			"1 GB":                      constant(at<<32 | 1<<30),
			"an answer outside":         constant(1<<62 | 64),
			"a failure without a word":  constant(0),
		},
		"controller": {
			"a list":                   said(`[]`),
			"a count below nothing":    said(`{"create":[{"count":-1,"object":{}}]}`),
			"a count beyond all":       said(`{"create":[{"count":1000000000,"object":{}}]}`),
			"to be asked in the past":  said(`{"requeueAfterNanos":-1}`),
			"too many events":          said(`{"events":[` + strings.Repeat(`{"type":"Normal","reason":"R"},`, 100) + `{"type":"Normal","reason":"R"}]}`),
			"no JSON":                  said("yes"),
			"1 GB":                     constant(at<<32 | 1<<30),
			"an answer outside":        constant(1<<62 | 64),
			"a failure without a word": constant(0),
		},
	} {
		r := newRig(t)
		for what, lie := range lies {
			g := guest{Name: "liar", Version: "1", Kind: kind, Refuse: -1, Also: func(m *Module) {
				if kind == "gate" {
					lie(m, "berth_gate")
					return
				}
				reconciler(m)
				lie(m, "berth_reconcile")
			}}
			p := r.put(t, "liar", withModule(r.upload(t, g.Bytes())))
			if p.Status.Phase != v1alpha1.PhaseLive {
				t.Fatalf("%s, %s: it is %s: %s", kind, what, p.Status.Phase, p.Status.Message)
			}
			var err error
			if kind == "gate" {
				_, err = r.Current().Gates()["made"].Judge(t.Context(), 1, pods)
			} else {
				err = r.reconcile(t, "liar")
			}
			if err == nil || !strings.HasPrefix(err.Error(), "policy liar: ") || !utf8.ValidString(err.Error()) || len(err.Error()) > 8<<10 {
				t.Errorf("%s, %s: %v, want a failure of policy liar", kind, what, err)
			}
		}
	}
}

// reconcile asks a controller about a parent of no content.
func (r *rig) reconcile(t *testing.T, name string) error {
	t.Helper()
	for _, c := range r.Current().Controllers() {
		if c.Name() == name {
			parent := wire.ControlObject{Kind: c.Parent(), Object: &metav1.ObjectMeta{Namespace: "shop", Name: "web"}, Fields: []json.RawMessage{json.RawMessage(`{}`)}}
			_, err := c.Reconcile(t.Context(), &wire.ReconcileInput{Now: 1, Parent: parent})
			return err
		}
	}
	t.Fatalf("no controller %s", name)
	return nil
}
