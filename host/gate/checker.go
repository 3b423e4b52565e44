package gate

import (
	"context"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
)

// A Checker judges the pods of one batch, each by itself, and answers in their
// order. An error means that it failed as a whole: the conditions become
// Unknown.
type Checker interface {
	Name() string
	Judge(ctx context.Context, now int64, pods []wire.GatePod) ([]abi.Readiness, error)
	// Observes are the observations to make of each pod before it is judged.
	Observes() []abi.Observe
}

// timeout is how long one attempt may take.
func timeout(w *abi.Observe) time.Duration {
	if w.TimeoutSeconds <= 0 {
		return time.Second
	}
	return min(time.Duration(w.TimeoutSeconds)*time.Second, abi.MaxTimeoutSeconds*time.Second)
}
