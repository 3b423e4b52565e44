// Package build makes a wasm module from a policy's source: by TinyGo where
// there is one, by stock Go where there is not.
package build

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Toolchain is what compiles a policy.
type Toolchain struct {
	// Name is tinygo or go.
	Name string
	// Path is the program.
	Path string
}

// Find returns TinyGo if it is on PATH or among Berth's tools, else Go.
func Find() (Toolchain, error) {
	if path, err := exec.LookPath("tinygo"); err == nil {
		return Toolchain{"tinygo", path}, nil
	}
	if path := filepath.Join(ToolsDir(), "bin", "tinygo"); isProgram(path) {
		return Toolchain{"tinygo", path}, nil
	}
	return Stock()
}

// Stock returns the Go toolchain.
func Stock() (Toolchain, error) {
	path, err := exec.LookPath("go")
	if err != nil {
		return Toolchain{}, errors.New("neither tinygo nor go is on PATH: install one of them to build policies")
	}
	return Toolchain{"go", path}, nil
}

// ToolsDir is where ./task keeps what it builds for itself.
func ToolsDir() string {
	if dir := os.Getenv("BERTH_TOOLS"); dir != "" {
		return dir
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	return filepath.Join(cache, "berth", "tools")
}

func isProgram(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular() && info.Mode()&0o111 != 0
}

// Error is what the compiler said, as it said it.
type Error struct {
	Toolchain Toolchain
	Output    string
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s does not build this policy:\n%s", e.Toolchain.Name, strings.TrimSpace(e.Output))
}

// Built is a module, and whether it is that of an earlier build of the same source.
type Built struct {
	Wasm  []byte
	Again bool
}

// Build is Module, unless the same source was built before: its module is kept.
func (t Toolchain) Build(ctx context.Context, dir string, debug bool) (Built, error) {
	mark, err := t.fingerprint(dir, debug)
	if err == nil {
		if wasm := kept(mark); wasm != nil {
			return Built{wasm, true}, nil
		}
	}
	wasm, failed := t.Module(ctx, dir, debug)
	if failed == nil && err == nil {
		keep(mark, wasm)
	}
	return Built{Wasm: wasm}, failed
}

// Module compiles the main package in dir and returns the module. debug keeps
// what traps need to show source lines.
func (t Toolchain) Module(ctx context.Context, dir string, debug bool) ([]byte, error) {
	tmp, err := os.MkdirTemp("", "berth-build-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(tmp)
	out := filepath.Join(tmp, "policy.wasm")
	if _, err := os.UserCacheDir(); err != nil {
		return nil, fmt.Errorf("%s keeps what it built in a cache, and there is no place for one (%w): set HOME or XDG_CACHE_HOME", t.Name, err)
	}
	cmd := exec.Command(t.Path, t.args(out, debug)...)
	cmd.Dir = dir
	cmd.Env = append(t.env(), "TMPDIR="+tmp)
	if t.Name == "tinygo" && debug {
		keeper, err := keepsLines(tmp)
		if err != nil {
			return nil, err
		}
		cmd.Env = append(cmd.Env, "WASMOPT="+keeper)
	}
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := Run(ctx, cmd); err != nil {
		if ctx.Err() != nil {
			return nil, err
		}
		if said.Len() == 0 {
			said.WriteString(err.Error())
		}
		return nil, &Error{t, said.String()}
	}
	return os.ReadFile(out)
}

// keepsLines makes what TinyGo takes for wasm-opt, and returns its path: it copies
// the module. The real one moves code without telling the debug information which
// function it was inlined into, so that a trap would show lines of the SDK and
// not the author's; and where it keeps debug information, it saves nothing.
func keepsLines(dir string) (string, error) {
	path := filepath.Join(dir, "wasm-opt")
	return path, os.WriteFile(path, []byte(copies), 0o700)
}

const copies = `#!/bin/sh
while [ $# -gt 0 ]; do
  case $1 in
  --version) echo "wasm-opt version 102"; exit ;;
  --output | -o) out=$2; shift ;;
  -*) ;;
  *) in=$1 ;;
  esac
  shift
done
exec cp "$in" "$out"
`

func (t Toolchain) args(out string, debug bool) []string {
	if t.Name != "tinygo" {
		// Go's wasm has functions' names at most, no lines.
		args := []string{"build", "-buildmode=c-shared", "-trimpath", "-o", out}
		if !debug {
			args = append(args, "-ldflags=-s -w")
		}
		return append(args, ".")
	}
	args := []string{
		"build", "-target=wasip1", "-buildmode=c-shared", "-gc=precise", "-opt=2",
		"-scheduler=none", "-panic=print", "-o", out,
	}
	if !debug {
		args = append(args, "-no-debug")
	}
	return append(args, ".")
}

func (t Toolchain) env() []string {
	if t.Name == "tinygo" {
		return os.Environ()
	}
	return append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "CGO_ENABLED=0")
}
