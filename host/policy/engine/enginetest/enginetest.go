// Package enginetest spares tests what they are not about: compiling modules by
// a binary that the race detector slows, and compiling the same ones in each
// package. It imports nothing of the engine, whose own tests use it.
//
//	func TestMain(m *testing.M) {
//		engine.ChildProgram = enginetest.Compiler()
//		os.Exit(m.Run())
//	}
package enginetest

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"syscall"
)

// Compiler is a program that serves as compile child, built without the race
// detector. A test that runs without the detector needs none: it is "" then.
func Compiler() string {
	if !Race {
		return ""
	}
	path, err := build("compiler")
	if err != nil {
		panic(fmt.Sprintf("enginetest: build the compile child: %v", err))
	}
	return path
}

// Subverted is a program that is confined as a compile child is, and then does
// the harm that its first argument names.
func Subverted() (string, error) { return build("subverted") }

// build has the go tool build a program, one process at a time; it does nothing
// where the program is up to date.
func build(name string) (string, error) {
	root, err := repository()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, ".build")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", err
	}
	path := filepath.Join(dir, name+"-"+version())
	lock, err := os.OpenFile(path+".lock", os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return "", err
	}
	defer lock.Close()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX); err != nil {
		return "", err
	}
	cmd := exec.Command("go", "build", "-ldflags", "-X "+wazero+"/internal/version.version="+version(), "-o", path, "./host/policy/engine/enginetest/"+name)
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if said, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %s", err, said)
	}
	return path, nil
}

const wazero = "github.com/tetratelabs/wazero"

// version is that of wazero, as wazero finds it in this binary: it keeps
// compiled code under that name. The tests of a command know it, others do not.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "dev"
	}
	for _, dep := range info.Deps {
		if dep.Path == wazero {
			return dep.Version
		}
	}
	return "dev"
}

// Cache is a folder of compiled modules that all tests of a clone share.
// ./task test begins with an empty one.
func Cache() string {
	root, err := repository()
	if err != nil {
		panic(fmt.Sprintf("enginetest: %v", err))
	}
	return filepath.Join(root, ".build", "compiled", version())
}

// started is where this process began, which is a test's own package.
var started, _ = os.Getwd()

// repository is the folder above there that holds go.mod.
func repository() (string, error) {
	dir := started
	for up := ""; dir != up; up, dir = dir, filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
	}
	return "", fmt.Errorf("no go.mod above %s", started)
}
