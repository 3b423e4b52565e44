package tool

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	cache, asked := t.TempDir(), t.TempDir()
	t.Setenv("BERTH_TOOLS", cache)
	put := func(dir, name string, mode os.FileMode) {
		t.Helper()
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	put(filepath.Join(cache, "bin"), "berth-x", 0o755)
	put(filepath.Join(cache, "bin"), "berth-y", 0o755)
	put(asked, "berth-y", 0o755)
	put(filepath.Join(cache, "bin"), "berth-z", 0o644)

	tests := []struct {
		name, tool, want string
	}{
		{"what ./task built is found", "berth-x", filepath.Join(cache, "bin", "berth-x")},
		{"a folder that is asked for comes first", "berth-y", filepath.Join(asked, "berth-y")},
		{"what is not executable is missing", "berth-z", ""},
		{"what is nowhere is missing", "berth-none", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := Find(tt.tool, asked)
			if got != tt.want || (err == nil) != (tt.want != "") {
				t.Errorf("Find(%s) = %q, %v, want %q", tt.tool, got, err, tt.want)
			}
		})
	}
}

func TestMissingSaysWhatToDo(t *testing.T) {
	t.Parallel()
	tests := []struct {
		names []string
		want  string
	}{
		{[]string{"runc", "bridge"}, "runc, bridge missing on this machine: run `./task tools`"},
		{[]string{"ip"}, "`apt-get install iproute2`"},
		{[]string{"tinygo"}, "`./task tinygo`"},
	}
	for _, tt := range tests {
		if got := (&MissingError{Names: tt.names}).Error(); !strings.Contains(got, tt.want) || strings.Contains(got, "\n") {
			t.Errorf("error for %v = %q, want %q in one line", tt.names, got, tt.want)
		}
	}
}
