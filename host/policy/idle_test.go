package policy_test

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
	. "github.com/berth-dev/berth/host/policy/vet/wasmtest"
	"github.com/berth-dev/berth/host/policy/wire"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// hoarder is a gate that traps once it was asked a hundred times since it last
// tidied up.
func hoarder(idle ...[]byte) []byte {
	const at = 3 << 20
	const said = `[{"status":"True","reason":"R"}]`
	return guest{Name: "made", Version: "1", Kind: "gate", Also: func(m *Module) {
		g := m.Global(0)
		m.Data(at, []byte(said))
		m.Export("berth_gate", Sig([]byte{I32}, I64), nil,
			GlobalGet(g), I64Const(1), Op(0x7c), GlobalSet(g),
			GlobalGet(g), I64Const(100), Op(0x55), If(Void, Op(0)), I64Const(at<<32|int64(len(said))))
		m.Export("berth_idle", Sig(nil, I32), nil, Seq(idle...), I64Const(0), GlobalSet(g), I32Const(0))
	}}.Bytes()
}

func judge(t *testing.T, r *rig) error {
	t.Helper()
	_, err := r.Current().Gates()["made"].Judge(t.Context(), time.Now().UnixNano(), []wire.GatePod{{Pod: clustertest.Pod("p", "1m", "1Mi", nil), Condition: "made"}})
	return err
}

func TestAGateMayTidyUpBetweenCalls(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "made", withModule(r.upload(t, hoarder())))
	for i := range 1000 {
		if err := judge(t, r); err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
	}
}

// A policy that fails whenever it is to tidy up costs a budget and a rebuild each
// time, though it answers well: it is quarantined like others that fail.
func TestAPolicyThatFailsToTidyUpIsQuarantined(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.put(t, "made", withModule(r.upload(t, hoarder(Forever()))))
	for i := range 1000 {
		if err := judge(t, r); err != nil {
			r.Load(t.Context())
			if got := r.policy(t, "made").Status; got.Phase != v1alpha1.PhaseQuarantined || !strings.Contains(got.Message, "berth_idle") {
				t.Errorf("after %d calls it is %s: %s", i, got.Phase, got.Message)
			}
			return
		}
	}
	t.Error("it still answers after 1,000 calls")
}

// The scheduler lets guests tidy up whenever it rests, also beside a policy of
// which no revision ever loaded.
func TestAPolicyThatNeverLoadedHasNothingToTidyUp(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if p := r.put(t, "none", withModule("sha256-"+strings.Repeat("0", 64))); p.Status.Phase != "Refused" {
		t.Fatalf("it is %s", p.Status.Phase)
	}
	if r.Rest(t.Context()) {
		t.Error("somebody is said to have something to tidy up")
	}
}
