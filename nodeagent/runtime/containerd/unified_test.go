package containerd_test

import (
	"os"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/cgroup/guestkernel"
)

// TestUnifiedCgroups runs containers on a kernel where cgroup v2 has it all.
func TestUnifiedCgroups(t *testing.T) {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		guestkernel.Run(t, "TestConformance|TestCrashes|TestContainers", 30*time.Minute)
	}
}
