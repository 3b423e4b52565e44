package containerd_test

import (
	"log/slog"
	"strings"
	"testing"

	runtimecontainerd "github.com/berth-dev/berth/nodeagent/runtime/containerd"
)

func TestOpenSaysWhatIsMissing(t *testing.T) {
	needRoot(t)
	for _, name := range []string{"PATH", "BERTH_TOOLS"} {
		t.Setenv(name, t.TempDir())
	}
	_, err := runtimecontainerd.Open(t.Context(), runtimecontainerd.Config{
		Root: t.TempDir(), State: t.TempDir(), Log: slog.New(slog.DiscardHandler),
	})
	if err == nil || strings.Contains(err.Error(), "\n") || !strings.Contains(err.Error(), "run `./task tools`") {
		t.Errorf("Open: %v, want one line that says what to do", err)
	}
}
