package scaffold

import (
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/vet"
)

// What could not be written whole is not left half.
func TestAFolderThatCannotBeWrittenIsNotLeft(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	err := writeOrLeave(dir, map[string][]byte{"a": nil, "a/b": nil})
	if _, left := os.Stat(dir); err == nil || left == nil {
		t.Errorf("writing a file in the place of a folder = %v, and the folder is left: %v", err, left == nil)
	}
	mine := t.TempDir()
	if err := writeOrLeave(mine, map[string][]byte{"a": nil, "a/b": nil}); err == nil {
		t.Error("a file is written in the place of a folder")
	}
	if _, err := os.Stat(mine); err != nil {
		t.Errorf("a folder that was there before is gone: %v", err)
	}
}

// A new policy is tested, built and vetted with nothing but what was written.
func TestANewPolicyBuildsOffline(t *testing.T) {
	t.Setenv("GOFLAGS", "-mod=vendor")
	t.Setenv("GOPROXY", "off")
	t.Setenv("GOWORK", "off")
	t.Setenv("GOMODCACHE", t.TempDir())
	for _, kind := range Kinds {
		t.Run(kind, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "my-policy")
			if err := Write(dir, Policy{Name: "my-policy", Kind: kind}); err != nil {
				t.Fatal(err)
			}
			cmd := exec.CommandContext(t.Context(), "go", "test", "./...")
			cmd.Dir = dir
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Fatalf("go test: %v\n%s", err, out)
			}
			compile(t, build.Stock, dir)
			if kind == Kinds[0] {
				compile(t, build.Find, dir)
			}
		})
	}
}

func compile(t *testing.T, find func() (build.Toolchain, error), dir string) {
	t.Helper()
	tool, err := find()
	if err != nil {
		t.Fatal(err)
	}
	wasm, err := tool.Module(t.Context(), dir, false)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := vet.Rewrite(wasm, vet.DefaultLimits()); err != nil {
		t.Errorf("built by %s: %v", tool.Name, err)
	}
}

func TestWhatIsNoPolicyIsNotWritten(t *testing.T) {
	t.Parallel()
	for _, p := range []Policy{
		{"", "predicate"}, {"Upper", "predicate"}, {"../out", "gate"}, {"a-", "gate"}, {"good", "plugin"}, {"good", ""},
	} {
		dir := filepath.Join(t.TempDir(), "new")
		if err := Write(dir, p); err == nil {
			t.Errorf("Write(%+v) wrote it", p)
		}
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("Write(%+v) left a folder", p)
		}
	}
}

func TestAFolderWithSomethingInItIsLeftAlone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "main.go")
	if err := os.WriteFile(file, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Write(dir, Policy{Name: "a", Kind: "gate"}); err == nil {
		t.Error("Write wrote into a folder with something in it")
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != "mine" {
		t.Errorf("the file there is %q, %v", data, err)
	}
}

// What is vendored is what this module itself is built with.
func TestFlatBuffersIsTheOneOfGoMod(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", flat).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	each(flatbuffers, func(name string, data []byte) {
		base := strings.TrimSuffix(path.Base(name), ".txt")
		if base != "LICENSE" {
			base = path.Join("go", base)
		}
		want, err := os.ReadFile(filepath.Join(strings.TrimSpace(string(out)), filepath.FromSlash(base)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(data)); diff != "" {
			t.Errorf("%s is not that of go.mod; copy it anew (-want +got):\n%s", name, diff)
		}
		seen++
	})
	if seen < 8 {
		t.Errorf("%d files are vendored", seen)
	}
}
