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
	// Wants are the observations to make of each pod before it is judged.
	Wants() []Want
}

// Want is something that the host observes for a checker.
type Want struct {
	Name string `json:"name"`
	// Kind is http, tcp, pods or node.
	Kind string `json:"kind"`
	// Port and Path are for http and tcp, to the pod's address.
	Port int32  `json:"port,omitempty"`
	Path string `json:"path,omitempty"`
	// Selector and Namespace are for pods: how many match, and are ready.
	Selector  string `json:"selector,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Condition is for node: the condition of the pod's node.
	Condition string `json:"condition,omitempty"`
	// TimeoutSeconds bounds an attempt; 1 by default.
	TimeoutSeconds int32 `json:"timeoutSeconds,omitempty"`
}

// timeout is how long one attempt may take.
func (w *Want) timeout() time.Duration {
	if w.TimeoutSeconds <= 0 {
		return time.Second
	}
	return min(time.Duration(w.TimeoutSeconds)*time.Second, 10*time.Second)
}
