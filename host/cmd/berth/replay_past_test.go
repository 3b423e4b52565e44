package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/polltest"
)

// Of what a controller was asked it is shown whether the same comes out, and what
// differs where another module is asked.
func TestAQuestionToAControllerIsReplayed(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	replay := func(args ...string) (string, error) {
		return berth(t, append([]string{"replay", "--kubeconfig", kubeconfig}, args...)...)
	}
	var out string
	polltest.Until(t, "a controller is asked about the Service kubernetes", func() bool {
		var err error
		out, err = replay("service/kubernetes", "--policy", "EndpointSlice")
		return err == nil
	})
	for _, want := range []string{"OBJECT", "service/kubernetes", "EndpointSlice", "true", "then: it wanted nothing"} {
		if !strings.Contains(out, want) {
			t.Errorf("the replay does not show %q:\n%s", want, out)
		}
	}
	out, err := replay("svc/kubernetes", "--at", "1h")
	if err == nil || !strings.Contains(err.Error(), "the oldest question kept is of 2") {
		t.Errorf("an hour ago: %v\n%s", err, out)
	}
	if out, err = replay("svc/none"); err == nil || !strings.Contains(err.Error(), "no controller was asked about services default/none") {
		t.Errorf("of no Service: %v\n%s", err, out)
	}
	file := filepath.Join(t.TempDir(), "none.wasm")
	write(t, file, "\x00asm\x01\x00\x00\x00")
	if out, err = replay("svc/kubernetes", "--policy", "EndpointSlice="+file); err == nil || !strings.Contains(err.Error(), "policy EndpointSlice: ") {
		t.Errorf("by a module that is none: %v\n%s", err, out)
	}
}

func TestWhatDiffersOfAReplayIsShown(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		name string
		r    berthapi.Reconciled
		want string
	}{
		{"another answer", berthapi.Reconciled{
			Policy: "Deployment", At: at, Then: []string{"a", "b"}, Again: []string{"a"}, Differs: []string{"- b"},
		}, "then: a\nthen: b\nagain: a\n- b\n"},
		{"a failure then", berthapi.Reconciled{
			Policy: "Deployment", At: at, Failure: "it trapped", Again: []string{"a"}, Differs: []string{"+ a"},
		}, "then: it failed: it trapped\nagain: a\n+ a\n"},
	} {
		var b strings.Builder
		if err := writeReconciled(&b, new(output), "deployment/web", &tt.r); err != nil {
			t.Fatal(err)
		}
		if _, got, _ := strings.Cut(b.String(), "\n\n"); got != tt.want || !strings.Contains(b.String(), "2026-03-01T12:00:00.000Z") {
			t.Errorf("%s is shown as:\n%s", tt.name, b.String())
		}
	}
}
