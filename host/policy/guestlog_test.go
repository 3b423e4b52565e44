package policy_test

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/logtest"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	clustertest "github.com/berth-dev/berth/host/schedule/policytest"
)

// says are the guest's lines of a level.
func says(lines []sandbox.Line, level slog.Level) (texts []string) {
	for _, l := range lines {
		if l.Level == level {
			texts = append(texts, l.Message)
		}
	}
	return texts
}

func TestWhatAGuestSaysIsKeptByLevel(t *testing.T) {
	t.Parallel()
	var out logtest.Text
	r := withTroubledLogging(t, "Talks", "", slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelInfo})))
	r.withNodes(1)
	r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
	lines, ok := r.GuestLog("troubled")
	for level, want := range map[slog.Level]string{slog.LevelDebug: "whisper", slog.LevelInfo: "talk", slog.LevelWarn: "warn", slog.LevelError: "shout"} {
		if got := says(lines, level); !ok || !slices.Equal(got, []string{want}) {
			t.Errorf("at %s it says %q, want %q", level, got, want)
		}
		logged := fmt.Sprintf(`level=%s msg="guest says" policy=troubled digest=sha256:`, level)
		if strings.Contains(out.String(), logged) != (level >= slog.LevelInfo) {
			t.Errorf("the host logs at info, and of %q its log has %v:\n%s", want, level < slog.LevelInfo, out.String())
		}
	}
	for i, line := range lines {
		if line.Number != int64(i+1) || line.Digest == "" || line.At.IsZero() {
			t.Errorf("line %d is %+v", i, line)
		}
	}
}

func TestAGuestThatSaysTooMuchIsCutShort(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "Talks", `{"times":100}`)
	r.withNodes(1)
	r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
	lines, _ := r.GuestLog("troubled")
	if n := len(lines); n < 2 || n > 50 || !strings.HasSuffix(lines[n-1].Message, "lines dropped: the guest says too much") {
		t.Errorf("of 400 lines there are %d, the last %+v", len(lines), lines[max(len(lines)-1, 0):])
	}
}

// The lines of a Policy go on when another module takes over, and are forgotten
// with it.
func TestWordsOutliveASwap(t *testing.T) {
	t.Parallel()
	r := withTroubled(t, "Talks", "")
	r.withNodes(1)
	r.decide(t, clustertest.Pod("p", "10m", "1Mi", nil))
	next := r.upload(t, guest{Name: "troubled", Version: "2", Refuse: -1}.Bytes())
	r.put(t, "troubled", func(s *v1alpha1.PolicySpec) { s.Module, s.Entry = next, "" })
	if lines, ok := r.GuestLog("troubled"); !ok || len(lines) != 4 {
		t.Errorf("after a swap there are %d lines, want 4", len(lines))
	}
	if _, ok := r.GuestLog("none"); ok {
		t.Error("there are lines of no policy")
	}
}
