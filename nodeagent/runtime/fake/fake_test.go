package fake_test

import (
	"testing"

	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/fake"
	"github.com/berth-dev/berth/nodeagent/runtime/runtimetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	runtimetest.Run(t, func(t *testing.T) runtimetest.Fixture {
		r := fake.New()
		return runtimetest.Fixture{Runtime: r, Image: "busybox", Restart: func(*testing.T) runtime.Runtime { return r }}
	})
}
