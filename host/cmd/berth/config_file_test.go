package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"
)

// settings is a command with a flag of each type, and what it was given.
type settings struct {
	listen string
	max    int64
	life   time.Duration
	stop   bool
	images []string
	labels map[string]string
}

func (s *settings) run(t *testing.T, file string, args ...string) error {
	t.Helper()
	cmd := &cobra.Command{Use: "x", Args: cobra.NoArgs, SilenceErrors: true, SilenceUsage: true, RunE: func(*cobra.Command, []string) error { return nil }}
	flags := cmd.Flags()
	flags.StringVar(&s.listen, "listen", "", "")
	flags.Int64Var(&s.max, "max-pods", 110, "")
	flags.DurationVar(&s.life, "life", time.Minute, "")
	flags.BoolVar(&s.stop, "stop-pods", false, "")
	flags.StringSliceVar(&s.images, "import-image", nil, "")
	flags.StringToStringVar(&s.labels, "node-labels", nil, "")
	_ = cmd.MarkFlagRequired("listen")
	addConfigFlag(cmd)
	path := filepath.Join(t.TempDir(), "berth.yaml")
	if err := os.WriteFile(path, []byte(file), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd.SetArgs(append(args, "--config", path))
	return cmd.Execute()
}

func TestAFileGivesFlags(t *testing.T) {
	t.Parallel()
	var s settings
	err := s.run(t, `
listen: 0.0.0.0:6443
max-pods: 1000000
life: 90s
stop-pods: true
import-image: [a.tar, "b,c.tar"]
node-labels: {zone: a, "example.test/disk": "ssd"}
`)
	want := settings{
		listen: "0.0.0.0:6443", max: 1_000_000, life: 90 * time.Second, stop: true,
		images: []string{"a.tar", "b,c.tar"}, labels: map[string]string{"zone": "a", "example.test/disk": "ssd"},
	}
	if diff := cmp.Diff(want, s, cmp.AllowUnexported(settings{})); err != nil || diff != "" {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	s = settings{}
	if err := s.run(t, "listen: a\nmax-pods: 5\nimport-image: [a]\n", "--max-pods", "7", "--import-image", "b"); err != nil || s.max != 7 || s.listen != "a" || len(s.images) != 1 || s.images[0] != "b" {
		t.Errorf("the command line does not come first: %+v, %v", s, err)
	}
	if err := new(settings).run(t, "", "--listen", "a"); err != nil {
		t.Errorf("an empty file: %v", err)
	}
}

func TestAFileOfFlagsIsChecked(t *testing.T) {
	t.Parallel()
	for file, want := range map[string]string{
		"max-pod: 5":               "there is no flag max-pod",
		"maxPods: 5":               "there is no flag maxPods: max-pods is meant",
		"config: x":                "there is no flag config",
		"max-pods: many":           `max-pods: invalid argument "many"`,
		"max-pods: [1, 2]":         "max-pods: want one value, not a list",
		"listen: {host: a}":        "listen: want no keys below it",
		"listen: null":             "listen: want a text",
		"import-image: [[a]]":      "import-image: want a text",
		"node-labels: {a: {b: c}}": "node-labels: a: want a text",
		"listen: a\nlisten: b":     "already set",
		"- listen":                 "want flags by their names",
		"listen: [":                "yaml",
	} {
		err := new(settings).run(t, file, "--life", "1m")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "berth.yaml") {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
	var s settings
	if err := s.run(t, "max-pods: 5"); err == nil || !strings.Contains(err.Error(), "listen") {
		t.Errorf("what is required and in neither: %v", err)
	}
}
