package nodeagent

import (
	"strings"
	"testing"
	"testing/synctest"

	v1 "k8s.io/api/core/v1"

	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
)

func TestRuntimeThatDoesNotAnswerIsToldOf(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := newStrained(t, Pressure{})
		defer s.Agent.events.Shutdown()
		m, ok := s.cfg.Runtime.(measured)
		if !ok {
			t.Fatalf("the runtime is %T", s.cfg.Runtime)
		}
		hang(m.Runtime)
		for _, c := range s.describe(t.Context()).Status.Conditions {
			if c.Type != v1.NodeReady {
				continue
			}
			if c.Status != v1.ConditionFalse || c.Reason != "KubeletNotReady" || !strings.HasPrefix(c.Message, "container runtime is down: ") {
				t.Errorf("condition %+v", c)
			}
			return
		}
		t.Error("the node does not say whether it is ready")
	})
}

func hang(r *runtimefake.Runtime) { r.Hang(true) }
