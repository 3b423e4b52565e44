package guest

import (
	"fmt"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/row"
)

func TestAnInstanceFullOfOldStringsAsksToBeBuiltAnew(t *testing.T) {
	t.Parallel()
	in := &Instance{rows: row.New(abi.PodLabels)}
	in.begin()
	if got := in.Idle(); got != abi.StatusOK {
		t.Errorf("Idle of a fresh instance = %d, want %d", got, abi.StatusOK)
	}
	for i := range 300_000 {
		in.rows.Symbols.Intern(fmt.Sprintf("pod-%d-with-a-name-of-its-own", i))
	}
	if got := in.Idle(); got != abi.IdleRebuild {
		t.Errorf("Idle = %d, want %d", got, abi.IdleRebuild)
	}
}
