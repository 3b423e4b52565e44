package vet

import (
	"encoding/binary"
	"sort"
)

// A module with debug information gets debug information of vet's own in its
// place: one line for all of its code, which has the compiler tell where in what
// vet wrote a trap was. Origins say where that stood in what was uploaded. They are
// not in the line table themselves, since the compiler's library would take fifteen
// times their memory for it, in the midst of the first call that traps. What the
// guest's own debug information says of the place is for the compile child to find
// out: it is never read here.

// LineFile is the one file that vet's line table names.
const LineFile = "w"

// Origins say of each instruction that can trap or call where it stood in the
// uploaded code section: pairs of u32, the place in the code section that vet
// wrote, by which they are sorted, and the former one plus one, or 0 where nothing
// more is known.
type Origins []byte

const originBytes = 2 * 4

// maxMarks bounds the origins of a module, at seventeen times what TinyGo's largest
// have that come with Berth. Functions beyond are not told of.
const maxMarks = 1 << 18

// Of is where the instruction at a place stood, -1 if that is not known.
func (o Origins) Of(at int) int {
	word := func(i int) int { return int(binary.LittleEndian.Uint32(o[4*i:])) }
	i := sort.Search(len(o)/originBytes, func(i int) bool { return word(2*i) > at }) - 1
	if i < 0 {
		return -1
	}
	return word(2*i+1) - 1
}

// origins writes the marks down.
func (m *module) origins() Origins {
	out := make(Origins, 0, originBytes*len(m.marks))
	for _, k := range m.marks {
		out = le32(le32(out, uint32(k.at)), uint32(k.old+1))
	}
	return out
}

// debugSection is how a module is known to have debug information.
const debugSection = ".debug_line"

// mark says where an instruction stood in the uploaded code section; old is -1
// where nothing more is marked.
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

// marking says whether the instruction here is marked: nothing traps in code that
// is not reached.
func (b *body) marking() bool { return b.m.debug && b.now != dead }

func (b *body) mark() {
	if b.marking() {
		b.marks = append(b.marks, mark{len(b.out), b.r.base + b.r.pos - b.m.code.base})
	}
}

// later moves the last mark to here: vet put something before the instruction.
func (b *body) later() {
	if b.marking() {
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
	if m.debug && len(m.marks)+len(marks) >= maxMarks {
		m.debug, marks = false, []mark{{0, -1}}
	}
	for _, k := range marks {
		m.marks = append(m.marks, mark{k.at + code, k.old})
	}
}

// Numbers of DWARF.
const (
	tagCompileUnit, atLowPC, atHighPC, atStmtList = 0x11, 0x11, 0x12, 0x10
	formAddr, formData4, formSecOffset            = 0x01, 0x06, 0x17
	lineCopy, lineAdvancePC                       = 1, 2
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
	first, last := m.marks[0].at, m.marks[len(m.marks)-1].at
	out = append(le32(append(out, 0, 5, lineSetAddress), uint32(first)), lineCopy)
	out = appendU32(append(out, lineAdvancePC), uint32(last+1-first))
	out = append(out, 0, 1, lineEnd)
	return append(le32(nil, uint32(len(out))), out...)
}

func le32(b []byte, v uint32) []byte { return binary.LittleEndian.AppendUint32(b, v) }
