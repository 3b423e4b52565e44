package main

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestAPushTakesNameAndSettingsOfTheFolder(t *testing.T) {
	t.Parallel()
	own, bare := t.TempDir(), t.TempDir()
	write(t, filepath.Join(own, ownFile), "apiVersion: policy.berth.dev/v1alpha1\nkind: Policy\nmetadata:\n  name: mine\n"+
		"spec:\n  entry: Mine\n  mode: Shadow\n  failureMode: Open\n  limits: {memoryBytes: 1000000}\n  config:\n    label: team\n")
	wasm := filepath.Join(bare, "a.wasm")
	write(t, wasm, "x")
	for _, tt := range []struct {
		name         string
		args         []string
		flags        pushFlags
		want, source string
		mode, config string
	}{
		{"a folder", []string{own}, pushFlags{}, "mine", own, "Shadow", `{"label":"team"}`},
		{"another name for it", []string{"other", own}, pushFlags{}, "other", own, "Shadow", `{"label":"team"}`},
		{"a flag that says otherwise", []string{own}, pushFlags{mode: "Off", config: "file"}, "mine", own, "Off", ""},
		{"a folder without the file", []string{"a", bare}, pushFlags{}, "a", bare, "", ""},
		{"a module", []string{"a", wasm}, pushFlags{}, "a", wasm, "", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			f := tt.flags
			name, source, err := f.pushed(tt.args)
			if err != nil || name != tt.want || source != tt.source || f.mode != tt.mode {
				t.Errorf("pushed(%q) = %s, %s, mode %s, %v", tt.args, name, source, f.mode, err)
			}
			if whole := tt.source == own; (f.own.FailureMode == "Open") != whole || (f.own.Limits != nil) != whole {
				t.Errorf("pushed(%q) has the failure mode %q and limits %v", tt.args, f.own.FailureMode, f.own.Limits)
			}
			config := ""
			if c, err := f.readConfig(); err == nil && c != nil {
				config = string(c.Raw)
			}
			if config != tt.config {
				t.Errorf("pushed(%q) has the config %s, want %s", tt.args, config, tt.config)
			}
		})
	}
	for _, bad := range []string{"kind: Policy\n", "spec: 3\n", ": :"} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, ownFile), bad)
		if name, _, err := new(pushFlags).pushed([]string{dir}); err == nil {
			t.Errorf("pushed took %q as %s", bad, name)
		}
	}
}

// What a folder wants otherwise than its policy has it, a canary would not run with.
func TestWhatACanaryWouldNotRunWithIsNamed(t *testing.T) {
	t.Parallel()
	raw := func(text string) *runtime.RawExtension { return &runtime.RawExtension{Raw: []byte(text)} }
	was := &v1alpha1.Policy{Spec: v1alpha1.PolicySpec{Config: raw(`{"a":1,"b":[2]}`), Limits: &v1alpha1.PolicyLimits{MemoryBytes: 8 << 20}}}
	for want, own := range map[string]v1alpha1.PolicySpec{
		"":                        {Config: raw(`{"b": [2], "a": 1}`), Limits: &v1alpha1.PolicyLimits{MemoryBytes: 8 << 20}, Mode: v1alpha1.Enforce},
		"config":                  {Config: raw(`{"a":1}`)},
		"limits,failureMode,mode": {Limits: &v1alpha1.PolicyLimits{MemoryBytes: 9 << 20}, FailureMode: v1alpha1.Open, Mode: v1alpha1.Shadow},
		"serviceAccount":          {ServiceAccount: &v1alpha1.ServiceAccountReference{Namespace: "a", Name: "b"}},
	} {
		f := pushFlags{own: own}
		if got := strings.Join(f.others(was), ","); got != want {
			t.Errorf("others of %+v = %q, want %q", own, got, want)
		}
		if got := f.others(nil); got != nil {
			t.Errorf("others of no policy = %q", got)
		}
	}
}
