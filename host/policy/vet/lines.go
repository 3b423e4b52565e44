package vet

import "encoding/binary"

// A module with debug information gets a line table of vet's own in its place:
// one that names, for each instruction that can trap or call, the offset in the
// uploaded module's code where it stood. What the guest's own debug information
// says of that offset is for the compile child to find out: it is never read here.

// LineFile is the one file that vet's line table names; its line numbers are
// offsets in the uploaded code section, plus one.
const LineFile = "w"

// debugSection is how a module is known to have debug information.
const debugSection = ".debug_line"

// mark says where an instruction stood in the uploaded code section.
type mark struct{ at, old int }

// mayTrap says of which instructions a stack trace can tell.
func mayTrap(op byte) bool {
	switch {
	case op == opUnreachable, op == 0x10, op == 0x11: // call, call_indirect
		return true
	case op >= 0x25 && op <= 0x26, op >= 0x28 && op <= 0x40: // tables, memory
		return true
	case op >= 0x6d && op <= 0x70, op >= 0x7f && op <= 0x82: // division
		return true
	case op >= 0xa8 && op <= 0xb1: // conversion
		return true
	}
	return op == 0xfc || op == 0xfd
}

func (b *body) mark() {
	if b.m.debug {
		b.marks = append(b.marks, mark{len(b.out), b.r.base + b.r.pos - b.m.code.base})
	}
}

// later moves the last mark to here: vet put something before the instruction.
func (b *body) later() {
	if b.m.debug {
		b.marks[len(b.marks)-1].at = len(b.out)
	}
}

// shift moves the marks from the first that is not moved yet up to a place in
// the copied code, by what was put in before them.
func (b *body) shift(upTo, by int) {
	for ; b.shifted < len(b.marks) && b.marks[b.shifted].at < upTo; b.shifted++ {
		b.marks[b.shifted].at += by
	}
}

// placed records a function's marks, whose code begins at an offset of the code
// section that is being written.
func (m *module) placed(marks []mark, code int) {
	for _, k := range marks {
		m.marks = append(m.marks, mark{k.at + code, k.old})
	}
}

// Numbers of DWARF.
const (
	tagCompileUnit, atLowPC, atHighPC, atStmtList = 0x11, 0x11, 0x12, 0x10
	formAddr, formData4, formSecOffset            = 0x01, 0x06, 0x17
	lineCopy, lineAdvancePC, lineAdvanceLine      = 1, 2, 3
	lineSetAddress, lineEnd                       = 2, 1
)

// appendLines writes the table as the three sections of DWARF that it takes.
func (m *module) appendLines(out []byte) []byte {
	abbrev := []byte{1, tagCompileUnit, 0, atLowPC, formAddr, atHighPC, formData4, atStmtList, formSecOffset, 0, 0, 0}
	last := m.marks[len(m.marks)-1].at
	info := []byte{4, 0, 0, 0, 0, 0, 4, 1} // version, abbreviations at, bytes of an address, the first of them
	info = le32(le32(le32(info, 1), uint32(last+1)), 0)
	info = append(le32(nil, uint32(len(info))), info...)
	for _, s := range []struct {
		name string
		body []byte
	}{{".debug_abbrev", abbrev}, {".debug_info", info}, {debugSection, m.lineProgram()}} {
		out = appendSection(out, secCustom, append(appendName(nil, s.name), s.body...))
	}
	return out
}

func (m *module) lineProgram() []byte {
	head := []byte{1, 1, 0, 1, 10, 0, 1, 1, 1, 1, 0, 0, 0, 1, 0} // of a program of version 2
	head = append(append(head, LineFile...), 0, 0, 0, 0, 0)
	out := append(le32([]byte{2, 0}, uint32(len(head))), head...)
	at, line := m.marks[0].at, 1
	out = le32(append(out, 0, 5, lineSetAddress), uint32(at))
	for _, k := range m.marks {
		if k.at > at {
			out = appendU32(append(out, lineAdvancePC), uint32(k.at-at))
		}
		out = append(appendS64(append(out, lineAdvanceLine), int64(k.old+1-line)), lineCopy)
		at, line = k.at, k.old+1
	}
	out = append(append(out, lineAdvancePC, 1), 0, 1, lineEnd)
	return append(le32(nil, uint32(len(out))), out...)
}

func le32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
