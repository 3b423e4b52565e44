package sandbox

import (
	"errors"

	"github.com/berth-dev/berth/host/policy/engine"
)

// meter counts what a guest burns in questions. To be told of the cluster is the
// cluster's doing.
type meter struct{ burnt engine.Fuel }

func (m *meter) spend(f engine.Func, r engine.Result, err error, memory uint64, slots int) {
	if f == engine.FuncApply || f == engine.FuncIdle {
		return
	}
	burnt := r.Fuel
	if failure := (*engine.Failure)(nil); errors.As(err, &failure) {
		burnt = failure.Fuel
	}
	m.burnt += engine.Dear(burnt, memory, slots)
}

// Burnt implements framework.Metered.
func (m *meter) Burnt() int64 {
	burnt := m.burnt
	m.burnt = 0
	return int64(burnt)
}
