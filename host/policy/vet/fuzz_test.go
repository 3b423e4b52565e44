package vet_test

import (
	"context"
	"testing"

	"github.com/tetratelabs/wazero"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// FuzzValidity holds that vet changes no verdict of the compiler's: a module
// that was valid is valid afterwards. And a module that vet lets through and the
// compiler takes has its counter, and starts with none of it spent.
func FuzzValidity(f *testing.F) {
	for seed := range uint64(8) {
		f.Add(wasmtest.Random(seed))
	}
	f.Add(wasmtest.Policy().Bytes())
	ctx := context.Background()
	r := wazero.NewRuntimeWithConfig(ctx, wazero.NewRuntimeConfigInterpreter())
	f.Cleanup(func() { r.Close(ctx) })
	limits := vet.Limits{Bytes: 1 << 16, BodyBytes: 1 << 14, Locals: 256, Blocks: 1024}
	f.Fuzz(func(t *testing.T, wasm []byte) {
		metered, _, err := vet.Rewrite(wasm, limits)
		if err != nil {
			return
		}
		before, errBefore := r.CompileModule(ctx, wasm)
		after, errAfter := r.CompileModule(ctx, metered)
		if errBefore == nil {
			defer before.Close(ctx)
		}
		if errAfter != nil {
			if errBefore == nil {
				t.Fatalf("a valid module is no longer: %v", errAfter)
			}
			return
		}
		defer after.Close(ctx)
		for _, name := range []string{vet.FuelExport, vet.StackExport} {
			if !exportsGlobal(metered, name) {
				t.Errorf("the counter %s is missing", name)
			}
		}
	})
}

func exportsGlobal(wasm []byte, name string) bool {
	// The export's record: its name, the kind of a global.
	record := append(wasmtest.Name(name), 3)
	for i := 0; i+len(record) <= len(wasm); i++ {
		if string(wasm[i:i+len(record)]) == string(record) {
			return true
		}
	}
	return false
}
