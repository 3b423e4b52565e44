package vet

import (
	"bytes"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"io"
	"testing"

	"github.com/berth-dev/berth/host/policy/vet/wasmtest"
)

// sectionsOf takes a module apart: custom sections by name, the code by "code".
func sectionsOf(t *testing.T, wasm []byte) map[string][]byte {
	t.Helper()
	sections := map[string][]byte{}
	for b := wasm[8:]; len(b) > 0; {
		size, n := binary.Uvarint(b[1:])
		body := b[1+n : 1+n+int(size)]
		switch b[0] {
		case secCode:
			sections["code"] = body
		case secCustom:
			length, k := binary.Uvarint(body)
			sections[string(body[k:k+int(length)])] = body[k+int(length):]
		}
		b = b[1+n+int(size):]
	}
	return sections
}

// What vet's line table says of an instruction is where it stood: the same
// opcode stands in both places.
func TestLinesLeadBackToTheUploadedCode(t *testing.T) {
	t.Parallel()
	found := 0
	for seed := range uint64(200) {
		plain := wasmtest.Random(seed)
		uploaded := append(bytes.Clone(plain), wasmtest.Section(secCustom, append(wasmtest.Name(debugSection), 1, 2, 3))...)
		out, report, err := Rewrite(uploaded, Limits{})
		if err != nil || !report.Debug {
			t.Fatalf("seed %d: %v, %+v", seed, err, report)
		}
		before, after := sectionsOf(t, uploaded), sectionsOf(t, out)
		without, _, err := Rewrite(plain, Limits{})
		if err != nil || !bytes.Equal(sectionsOf(t, without)["code"], after["code"]) {
			t.Fatalf("seed %d: debug information changes the code (%v)", seed, err)
		}
		for _, e := range lineEntries(t, after) {
			old := e.Line - 1
			op := before["code"][old]
			if !mayTrap(op) || op == opMemoryGrow || op == 0xfc {
				continue // a function's beginning, or what is charged for before it
			}
			found++
			if got := after["code"][e.Address]; got != op && !(op == 0xfd) {
				t.Fatalf("seed %d: opcode %#x at %d comes from %#x at %d", seed, got, e.Address, op, old)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d instructions were looked at", found)
	}
}

func lineEntries(t *testing.T, s map[string][]byte) (all []dwarf.LineEntry) {
	t.Helper()
	d, err := dwarf.New(s[".debug_abbrev"], nil, nil, s[".debug_info"], s[debugSection], nil, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	unit, err := d.Reader().Next()
	if err != nil {
		t.Fatal(err)
	}
	lines, err := d.LineReader(unit)
	if err != nil {
		t.Fatal(err)
	}
	for {
		var e dwarf.LineEntry
		err := lines.Next(&e)
		if errors.Is(err, io.EOF) {
			return all
		}
		if err != nil {
			t.Fatal(err)
		}
		if !e.EndSequence {
			all = append(all, e)
		}
	}
}
