package sandbox

import (
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/policy/engine"
)

// meter counts what the guest burns in questions. To be told of the cluster is the
// cluster's doing.
func (s *Sandbox) meter(f engine.Func, r engine.Result, err error) {
	if f == engine.FuncApply || f == engine.FuncIdle {
		return
	}
	burnt := r.Fuel
	if failure := (*engine.Failure)(nil); errors.As(err, &failure) {
		burnt = failure.Fuel
	}
	s.burnt += engine.Dear(burnt, s.instance.MemoryBytes(), s.slots)
}

// Burnt implements framework.Metered.
func (s *Sandbox) Burnt() int64 {
	burnt := s.burnt
	s.burnt = 0
	return int64(burnt)
}

// Shed implements framework.Metered.
func (s *Sandbox) Shed(burnt, all, most int64) {
	if !s.retired.Load() {
		_ = s.fail(fmt.Errorf("the policies of the profile took %d of fuel for one pod, where %d is the most: this one took %d of it, more than any other", all, most, burnt))
	}
}
