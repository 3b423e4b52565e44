package engine

import (
	"bytes"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// Whatever is wrong with an entry, wazero would compile the module in the host.
func TestTheHostCompilesNothingItself(t *testing.T) {
	t.Parallel()
	e := newEngine(t)
	wasm, report, err := vet.Rewrite(wasmtest.Policy().Bytes(), vet.DefaultLimits())
	if err != nil {
		t.Fatal(err)
	}
	name := entryName(wasm, e.features)
	entry, err := e.entry(t.Context(), name, wasm, report.Functions)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		spoil func(name string, entry []byte) (string, []byte)
		right bool
	}{
		{"its own code", func(n string, b []byte) (string, []byte) { return n, b }, true},
		{"code under another name", func(_ string, b []byte) (string, []byte) {
			return "00", b
		}, false},
		{"code of another version of wazero", func(n string, b []byte) (string, []byte) {
			b[len("WAZEVO")+1] ^= 1
			return n, b
		}, false},
		{"no code", func(n string, _ []byte) (string, []byte) { return n, nil }, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			name, entry := test.spoil(name, bytes.Clone(entry))
			s, err := e.link(t.Context(), name, entry, wasm)
			if err == nil {
				s.free()
			}
			if (err == nil) != test.right {
				t.Errorf("linked with %v, want it refused: %t", err, !test.right)
			}
		})
	}
}
