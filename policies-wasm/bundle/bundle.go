// Package bundle carries the compiled built-in policies. The modules are built
// (./task wasm), not committed: without them the package is empty.
package bundle

import (
	"embed"
	"io/fs"
	"strings"
)

//go:embed all:wasm
var files embed.FS

// Module is one compiled bundle of policies.
type Module struct {
	Name string
	Wasm []byte
}

// Modules returns the bundles in the order of their names.
func Modules() ([]Module, error) {
	var modules []Module
	err := fs.WalkDir(files, "wasm", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(path, ".wasm") {
			return err
		}
		data, err := files.ReadFile(path)
		if err != nil {
			return err
		}
		modules = append(modules, Module{strings.TrimSuffix(d.Name(), ".wasm"), data})
		return nil
	})
	return modules, err
}
