package build

import (
	"os"
	"path/filepath"
	"testing"
)

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestAChangeOfTheSourceShows(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	at := func(name string) string { return filepath.Join(root, filepath.FromSlash(name)) }
	write(t, at("go.mod"), "module m\n")
	write(t, at("p/main.go"), "package main\n")
	tool := Toolchain{"go", os.Args[0]}
	mark := func(dir string, debug bool) string {
		t.Helper()
		m, err := tool.fingerprint(at(dir), debug)
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	was := mark("p", false)
	for _, same := range []string{"p/main_test.go", "p/p.wasm", ".git/HEAD", "p/policy.yaml", "p/table.json", "p/testdata/t"} {
		write(t, at(same), "x")
		if mark("p", false) != was {
			t.Errorf("%s changes what is built", same)
		}
	}
	if mark("p", true) == was || mark(".", false) == was {
		t.Error("the flags or the folder do not change what is built")
	}
	nested := mark("p/testdata/q", false)
	write(t, at("p/testdata/q/main.go"), "package main\n")
	if mark("p", false) != was || mark("p/testdata/q", false) == nested {
		t.Error("a policy below testdata is not told by its source, or changes what is built above it")
	}
	for _, other := range []string{"p/more.go", "vendor/a/a.go", "vendor/modules.txt", "go.sum"} {
		write(t, at(other), "x")
		now := mark("p", false)
		if now == was {
			t.Errorf("%s does not change what is built", other)
		}
		was = now
	}
}

func TestAChangeOfWhatIsEmbeddedShows(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module m\n")
	write(t, filepath.Join(root, "main.go"), "package main\n\n//go:embed README.md testdata\n//go:embed \"all:.hidden\" *.json\n//go:embed\tlist.txt \"two words\"\nvar text string\n")
	seen := map[string]string{}
	for _, file := range []string{"main.go", "README.md", "testdata/a", ".hidden/b", "table.json", "list.txt", "two words"} {
		if file != "main.go" {
			write(t, filepath.Join(root, file), "x")
		}
		now, err := (Toolchain{"go", os.Args[0]}).fingerprint(root, false)
		if err != nil {
			t.Fatal(err)
		}
		if other, same := seen[now]; same {
			t.Errorf("with %s it is what it was with %s", file, other)
		}
		seen[now] = file
	}
}

func TestAWorkspaceAboveIsNotKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.work"), "go 1.26\n")
	write(t, filepath.Join(root, "m", "go.mod"), "module m\n")
	if m, err := (Toolchain{"go", os.Args[0]}).fingerprint(filepath.Join(root, "m"), false); err == nil {
		t.Errorf("the fingerprint is %s", m)
	}
}

func TestASourceThatReachesOutsideIsNotKept(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, filepath.Join(root, "go.mod"), "module m\n\nreplace a => ../a\n")
	if m, err := (Toolchain{"go", os.Args[0]}).fingerprint(root, false); err == nil {
		t.Errorf("the fingerprint is %s", m)
	}
}
