package engine

import (
	"bytes"
	"cmp"
	"debug/dwarf"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path"
	"slices"
)

// What follows runs in a child, under its limits: debug information is as
// foreign as code is.

// maxLineRows bounds how many places of a module are told.
const maxLineRows = 1 << 18

// childLines writes what a module's debug information says of its code.
func childLines(wasm []byte) error {
	t, err := decodeLines(wasm)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(t.table())
	return err
}

// foundLines is what the debug information says, on its way to a lineTable.
type foundLines struct {
	strings []string
	rows    []foundRow // by at
}

type foundRow struct {
	at     int
	places []place
}

// place is a function, a file, and a line of it; the first two by number.
type place struct{ name, file, line int }

// table writes them down.
func (l *foundLines) table() []byte {
	var rows, places, ends, strings []byte
	add := func(to *[]byte, n int) { *to = binary.LittleEndian.AppendUint32(*to, uint32(n)) }
	for _, r := range l.rows {
		add(&rows, r.at)
		add(&rows, len(places)/linePlace)
		for _, p := range r.places {
			add(&places, p.name)
			add(&places, p.file)
			add(&places, max(p.line, 0))
		}
	}
	for _, s := range l.strings {
		strings = append(strings, s...)
		add(&ends, len(strings))
	}
	var head []byte
	add(&head, len(l.rows))
	add(&head, len(places)/linePlace)
	add(&head, len(l.strings))
	return slices.Concat(head, rows, places, ends, strings)
}

func decodeLines(wasm []byte) (*foundLines, error) {
	s, err := debugSections(wasm)
	if err != nil {
		return nil, err
	}
	d, err := dwarf.New(s[".debug_abbrev"], nil, nil, s[".debug_info"], s[".debug_line"], nil, s[".debug_ranges"], s[".debug_str"])
	if err != nil {
		return nil, err
	}
	for _, name := range []string{".debug_addr", ".debug_line_str", ".debug_str_offsets", ".debug_rnglists", ".debug_loclists"} {
		if len(s[name]) > 0 {
			if err := d.AddSection(name, s[name]); err != nil {
				return nil, err
			}
		}
	}
	r := &dwarfReader{d: d, found: &foundLines{}, known: map[string]int{}}
	r.intern("") // what is not told is number 0
	if err := r.units(); err != nil {
		return nil, err
	}
	slices.SortStableFunc(r.found.rows, func(a, b foundRow) int { return cmp.Compare(a.at, b.at) })
	return r.found, nil
}

// debugSections takes the sections of debug information out of a module.
func debugSections(wasm []byte) (map[string][]byte, error) {
	const header = 8
	sections := map[string][]byte{}
	b := wasm[min(header, len(wasm)):]
	for len(b) > 0 {
		id := b[0]
		size, n := binary.Uvarint(b[1:])
		if n <= 0 || size > uint64(len(b)-1-n) {
			return nil, errors.New("a section runs past the end")
		}
		body := b[1+n : 1+n+int(size)]
		b = b[1+n+int(size):]
		if id != 0 {
			continue
		}
		length, k := binary.Uvarint(body)
		if k > 0 && length <= uint64(len(body)-k) {
			sections[string(body[k:k+int(length)])] = body[k+int(length):]
		}
	}
	return sections, nil
}

// dwarfReader turns debug information into a table.
type dwarfReader struct {
	d     *dwarf.Data
	found *foundLines
	known map[string]int // strings
}

// scope is a function, or one that was inlined into it.
type scope struct {
	name       string
	ranges     [][2]uint64
	file, line int // from where it was inlined
	declared   int // the file that it is of
	inner      []*scope
}

func (s *scope) holds(at uint64) bool {
	for _, r := range s.ranges {
		if r[0] <= at && at < r[1] {
			return true
		}
	}
	return false
}

func (r *dwarfReader) units() error {
	entries := r.d.Reader()
	for {
		unit, err := entries.Next()
		if err != nil || unit == nil {
			return err
		}
		if unit.Tag != dwarf.TagCompileUnit {
			entries.SkipChildren()
			continue
		}
		lines, err := r.d.LineReader(unit)
		if err != nil || lines == nil {
			entries.SkipChildren()
			continue
		}
		root := &scope{}
		if unit.Children {
			r.children(entries, root, lines.Files(), 0)
		}
		if err := r.rows(lines, root); err != nil {
			return err
		}
	}
}

// maxDeep bounds how deep functions may be inlined into each other.
const maxDeep = 256

// children reads the functions below an entry, to its end.
func (r *dwarfReader) children(entries *dwarf.Reader, into *scope, files []*dwarf.LineFile, deep int) {
	for {
		e, err := entries.Next()
		if err != nil || e == nil || e.Tag == 0 {
			return
		}
		inner := into
		switch e.Tag {
		case dwarf.TagSubprogram, dwarf.TagInlinedSubroutine:
			inner = r.scope(e, files)
			into.inner = append(into.inner, inner)
		case dwarf.TagLexDwarfBlock, dwarf.TagNamespace:
		default:
			entries.SkipChildren()
			continue
		}
		if !e.Children {
			continue
		}
		if deep == maxDeep {
			entries.SkipChildren()
			continue
		}
		r.children(entries, inner, files, deep+1)
	}
}

func (r *dwarfReader) scope(e *dwarf.Entry, files []*dwarf.LineFile) *scope {
	s := &scope{name: r.nameOf(e)}
	s.ranges, _ = r.d.Ranges(e)
	if file, ok := e.Val(dwarf.AttrCallFile).(int64); ok && file >= 0 && file < int64(len(files)) && files[file] != nil {
		s.file = r.file(files[file].Name)
	}
	if line, ok := e.Val(dwarf.AttrCallLine).(int64); ok {
		s.line = int(line)
	}
	if file, ok := r.declared(e, dwarf.AttrDeclFile, 0).(int64); ok && file >= 0 && file < int64(len(files)) && files[file] != nil {
		s.declared = r.file(files[file].Name)
	}
	return s
}

// nameOf is a function's name.
func (r *dwarfReader) nameOf(e *dwarf.Entry) string {
	for _, attr := range []dwarf.Attr{dwarf.AttrName, dwarf.AttrLinkageName} {
		if name, ok := r.declared(e, attr, 0).(string); ok {
			return name
		}
	}
	return ""
}

// declared is what is said of a function, be it where it was declared.
func (r *dwarfReader) declared(e *dwarf.Entry, attr dwarf.Attr, deep int) any {
	const most = 4
	if value := e.Val(attr); value != nil || deep == most {
		return value
	}
	for _, attrOf := range []dwarf.Attr{dwarf.AttrAbstractOrigin, dwarf.AttrSpecification} {
		at, ok := e.Val(attrOf).(dwarf.Offset)
		if !ok {
			continue
		}
		other := r.d.Reader()
		other.Seek(at)
		if origin, err := other.Next(); err == nil && origin != nil {
			return r.declared(origin, attr, deep+1)
		}
	}
	return nil
}

// rows reads a unit's line program.
func (r *dwarfReader) rows(lines *dwarf.LineReader, root *scope) error {
	var e dwarf.LineEntry
	for {
		err := lines.Next(&e)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if e.EndSequence || e.File == nil || e.Address == 0 || e.Address > 1<<31 {
			continue
		}
		if len(r.found.rows) == maxLineRows {
			return nil
		}
		r.found.rows = append(r.found.rows, foundRow{int(e.Address), r.places(root, e.Address, r.file(e.File.Name), e.Line)})
	}
}

// places lists the functions around an address, the innermost first. The line is
// 0 where the compiler made one code of several lines.
func (r *dwarfReader) places(root *scope, at uint64, file, line int) []place {
	var around []*scope
	for s := root; s != nil; {
		i := slices.IndexFunc(s.inner, func(s *scope) bool { return s.holds(at) })
		if i < 0 {
			break
		}
		s = s.inner[i]
		around = append(around, s)
	}
	if len(around) == 0 {
		return []place{{r.intern(""), file, line}}
	}
	var places []place
	if line == 0 {
		file = around[len(around)-1].declared
	}
	for i := len(around) - 1; i >= 0 && len(places) < maxInlined; i-- {
		s := around[i]
		places = append(places, place{r.intern(s.name), file, line})
		file, line = s.file, s.line
	}
	return places
}

// file keeps of a path what an author knows it by.
func (r *dwarfReader) file(name string) int {
	dir, base := path.Split(name)
	return r.intern(path.Join(path.Base(dir), base))
}

func (r *dwarfReader) intern(s string) int {
	s = s[:min(len(s), maxFrameBytes)] // no more is ever shown
	i, ok := r.known[s]
	if !ok {
		i = len(r.found.strings)
		r.known[s] = i
		r.found.strings = append(r.found.strings, s)
	}
	return i
}

// checkSources reads the part of an entry that maps code to sources, if it is
// there, and returns what follows.
func checkSources(b []byte, code uint64) ([]byte, bool) {
	if len(b) == 0 || b[0] > 1 {
		return nil, false
	}
	has, b := b[0] == 1, b[1:]
	if !has {
		return b, true
	}
	if len(b) < 8 {
		return nil, false
	}
	n := binary.LittleEndian.Uint64(b)
	b = b[8:]
	if n > uint64(len(b))/16 {
		return nil, false
	}
	for i := range int(n) {
		if binary.LittleEndian.Uint64(b[16*i+8:]) > code {
			return nil, false
		}
	}
	return bytes.Clone(b[16*n:]), true
}
