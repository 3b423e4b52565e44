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

// placesOf is where instructions stood, by where they stand.
func placesOf(o Origins) map[int]int {
	places := map[int]int{}
	for ; len(o) > 0; o = o[originBytes:] {
		places[int(binary.LittleEndian.Uint32(o))] = int(binary.LittleEndian.Uint32(o[4:])) - 1
	}
	return places
}

func TestAnOriginIsThatOfTheInstructionBefore(t *testing.T) {
	t.Parallel()
	m := &module{marks: []mark{{10, 3}, {10, 4}, {20, 9}, {30, -1}}}
	for at, want := range map[int]int{-1: -1, 9: -1, 10: 4, 19: 4, 20: 9, 29: 9, 30: -1, 1 << 30: -1} {
		if got := m.origins().Of(at); got != want {
			t.Errorf("at %d it is %d, want %d", at, got, want)
		}
	}
	if got := Origins(nil).Of(5); got != -1 {
		t.Errorf("without any it is %d", got)
	}
}

// A module chooses how much of it can trap.
func TestOriginsAreBounded(t *testing.T) {
	t.Parallel()
	convert := wasmtest.Times(200_000, wasmtest.Op(0xac, 0xa7)) // one of them may trap, as far as vet knows
	for name, c := range map[string]struct {
		code []byte
		most int
		lost bool // those of the last function
	}{
		"what is never reached": {wasmtest.Seq(wasmtest.Op(opUnreachable), convert), 100, false},
		"too many":              {convert, maxMarks, true},
	} {
		m := rich()
		for range 4 {
			m.Func("f", nothing, nil, c.code)
		}
		wasm := append(m.Bytes(), wasmtest.Section(secCustom, append(wasmtest.Name(debugSection), 1))...)
		out, report, err := Rewrite(wasm, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if n := len(report.Origins) / originBytes; n > c.most || n == 0 {
			t.Errorf("%s: %d instructions have origins, want %d at most", name, n, c.most)
		}
		code := sectionsOf(t, out)["code"]
		if got := report.Origins.Of(len(code)) < 0; got != c.lost {
			t.Errorf("%s: where the last instruction stood is unknown: %v, want %v", name, got, c.lost)
		}
		if report.Origins.Of(len(code)/8) < 0 {
			t.Errorf("%s: where an early instruction stood is unknown", name)
		}
	}
}

// What vet's origins say of an instruction is where it stood: the same
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
		for at, old := range placesOf(report.Origins) {
			op := before["code"][old]
			if !mayTrap(op) || op == opMemoryGrow || op == 0xfc {
				continue // a function's beginning, or what is charged for before it
			}
			found++
			if got := after["code"][at]; got != op && !(op == 0xfd) {
				t.Fatalf("seed %d: opcode %#x at %d comes from %#x at %d", seed, got, at, op, old)
			}
		}
	}
	if found < 1000 {
		t.Errorf("only %d instructions were looked at", found)
	}
}

// Each instruction at which a guest may end has a line, and that is of its
// place: also of one that begins what is charged for.
func TestWhatMayTrapHasALine(t *testing.T) {
	t.Parallel()
	var plain []byte
	for _, span := range [][2]int{{0x28, 0x3e}, {0x6d, 0x70}, {0x7f, 0x82}, {0xa8, 0xab}, {0xae, 0xb1}} {
		for op := span[0]; op <= span[1]; op++ {
			if plain = append(plain, byte(op)); op <= 0x3e {
				plain = append(plain, 0, 0)
			}
		}
	}
	for name, code := range map[string][]byte{
		"memory and numbers": plain,
		"tables":             {0x25, 0, 0x26, 0, 0x11, 1, 0},
		"a call of a long":   {0x10, 7},
		"a call of a short":  {0x10, 1},
		"unreachable":        {0x00},
		"growth":             {0x40, 0},
		"bulk":               {0xfc, 11, 0},
		"a conversion":       {0xfc, 1},
		"a vector":           {0xfd, 0, 0, 0},
		"a loop's first":     {opLoop, wasmtest.Void, 0x3f, 0, 0x0b},
	} {
		m := rich()
		m.Func("long", nothing, nil, wasmtest.Times(200, wasmtest.Op(0x01)))
		m.Func("f", nothing, nil, wasmtest.Op(0x01), code, wasmtest.Op(0x01, 0x01, 0x01))
		wasm := append(m.Bytes(), wasmtest.Section(secCustom, append(wasmtest.Name(debugSection), 1))...)
		out, report, err := Rewrite(wasm, Limits{})
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		before, after := sectionsOf(t, wasm), sectionsOf(t, out)
		places := map[int]int{} // in what was written, by the place in what was uploaded
		first, last := 1<<30, 0
		for at, old := range placesOf(report.Origins) {
			places[old] = at
			first, last = min(first, at), max(last, at)
		}
		lines := lineEntries(t, after)
		if len(lines) != 2 || lines[0].File.Name != LineFile || lines[0].Line != 1 || int(lines[0].Address) != first || int(lines[1].Address) != last+1 {
			t.Errorf("%s: the lines are %v, want one from %d to %d", name, lines, first, last)
		}
		at := bytes.LastIndex(before["code"], code)
		for i := 0; i < len(code); i++ {
			op := code[i]
			switch {
			case op == opLoop:
				i++
				continue
			case op == opEnd:
				continue
			}
			place, ok := places[at+i]
			if !ok || place >= len(after["code"]) || op != opMemoryGrow && op != 0xfc && after["code"][place] != op {
				t.Errorf("%s: opcode %#x has a line: %v, at %d", name, op, ok, place)
			}
			i += map[byte]int{0x10: 1, 0x11: 2, 0x25: 1, 0x26: 1, 0x3f: 1, 0x40: 1, 0xfc: len(code), 0xfd: len(code)}[op]
			if op >= 0x28 && op <= 0x3e {
				i += 2
			}
		}
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
		all = append(all, e)
	}
}
