package guest

import (
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/json"
)

// Gate answers for a batch of pods: a JSON list, in their order.
func (in *Instance) Gate(b []byte) ([]byte, error) {
	if in.gate == nil {
		return nil, errKind
	}
	at, err := root(b)
	if err != nil {
		return nil, err
	}
	in.begin()
	var input fb.GateInput
	input.Init(b, at)
	j := &json.Writer{}
	j.Open('[')
	var r fb.GatePod
	for i := 0; i < input.PodsLength(); i++ {
		input.Pods(&r, i)
		At(int32(i))
		g := in.gated.Read(input.Now(), &r, in.podDec, in.rows.Symbols)
		withinCheck(in.gate, input.Now(), g).AppendTo(j)
	}
	return j.Close(']').Bytes(), nil
}

//go:noinline
func withinCheck(c gate.Checker, now int64, pod *gate.Pod) gate.Readiness { return c.Check(now, pod) }
