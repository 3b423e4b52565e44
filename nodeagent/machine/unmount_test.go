package machine

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMountsBelow(t *testing.T) {
	t.Parallel()
	table := `36 35 98:0 / /data/agent/pods rw - ext4 /dev/root rw
37 36 0:1 / /data/agent/pods/a/shm rw,nosuid shared:1 - tmpfs tmpfs rw
38 36 0:2 / /data/agent/pods/a/volumes/my\040vol rw - tmpfs tmpfs rw
39 36 0:3 / /data/agent/podsother rw - tmpfs tmpfs rw
short line
`
	want := []string{"/data/agent/pods/a/shm", "/data/agent/pods/a/volumes/my vol"}
	if diff := cmp.Diff(want, mountsBelow(table, "/data/agent/pods")); diff != "" {
		t.Errorf("mountsBelow() differs (-want +got):\n%s", diff)
	}
}
