package engine

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/policy/vet"
)

// linesFile is what a child leaves that was asked for source lines.
const linesFile = "lines"

// Limits of what a child may say of source lines.
const (
	maxLinesBytes = 32 << 20
	maxInlined    = 16
	linesTime     = 5 * time.Second
)

// lineTable says what stands where in a module's source. A child writes it from
// the debug information of the module that was uploaded, so that a look needs
// nothing read beforehand:
//
//	rows u32 | places u32 | strings u32
//	| rows (at u32, first place u32) …, by at | places (name u32, file u32, line u32) …
//	| end of each string u32 … | strings
//
// A row is the place of the code from an offset of the uploaded code section on,
// up to the next one: the innermost function first, then those that it was
// inlined into. It may say anything, and no look goes beyond it.
type lineTable struct {
	rows, places, ends, strings []byte
}

const (
	lineHead  = 3 * 4
	rowBytes  = 2 * 4
	linePlace = 3 * 4
	endBytes  = 4
)

var errLines = errors.New("source lines: they are not as long as they say")

// readLines takes what a child left.
func readLines(b []byte) (*lineTable, error) {
	if len(b) < lineHead {
		return nil, errLines
	}
	rows, places, ends := rowBytes*int(u32(b, 0)), linePlace*int(u32(b, 1)), endBytes*int(u32(b, 2))
	if b = b[lineHead:]; rows+places+ends > len(b) {
		return nil, errLines
	}
	return &lineTable{b[:rows], b[rows:][:places], b[rows+places:][:ends], b[rows+places+ends:]}, nil
}

func u32(b []byte, i int) uint32 { return binary.LittleEndian.Uint32(b[4*i:]) }

// of returns the places of a row.
func (t *lineTable) of(row int) []byte {
	from, to := int(u32(t.rows, 2*row+1))*linePlace, len(t.places)
	if rowBytes*(row+1) < len(t.rows) {
		to = int(u32(t.rows, 2*row+3)) * linePlace
	}
	to = min(to, len(t.places), from+maxInlined*linePlace)
	return t.places[min(from, to):to]
}

// string returns the beginning of a string by its number, "" if there is none.
func (t *lineTable) string(n uint32) string {
	i := int(n)
	if i >= len(t.ends)/endBytes {
		return ""
	}
	from, to := 0, min(int(u32(t.ends, i)), len(t.strings))
	if i > 0 {
		from = int(u32(t.ends, i-1))
	}
	return string(t.strings[min(from, to):min(to, from+maxFrameBytes)])
}

// lines has a child read the debug information of a module.
func (e *Engine) lines(ctx context.Context, wasm []byte) ([]byte, error) {
	select {
	case e.compiling <- struct{}{}:
		defer func() { <-e.compiling }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, linesTime)
	defer cancel()
	at, err := e.cache.work()
	if err != nil {
		return nil, err
	}
	defer at.remove()
	path := filepath.Join(at.dir, linesFile)
	if err := runChild(ctx, e.child, path, modeLines, wasm); err != nil {
		return nil, err
	}
	data, err := takeOne(path, maxLinesBytes)
	if err != nil {
		return nil, fmt.Errorf("the child left no source lines: %w", err)
	}
	if _, err := readLines(data); err != nil {
		return nil, err
	}
	return data, nil
}

// at describes the code at an offset, the innermost function first; nothing if
// that is unknown.
func (t *lineTable) at(offset int) (frames []string) {
	if t == nil {
		return nil
	}
	row := sort.Search(len(t.rows)/rowBytes, func(i int) bool { return int(u32(t.rows, 2*i)) > offset }) - 1
	if row < 0 {
		return nil
	}
	for p := t.of(row); len(p) > 0; p = p[linePlace:] {
		if place := t.place(p, len(frames) == 0); place != "" {
			frames = append(frames, clipFrame(place))
		}
	}
	return frames
}

// place is one as people read it. Without a line it tells nothing but of the
// innermost function, of which several lines became one code: others are a
// compiler's own, such as the way through an interface.
func (t *lineTable) place(p []byte, innermost bool) string {
	name, file, line := t.string(u32(p, 0)), t.string(u32(p, 1)), u32(p, 2)
	switch {
	case line == 0 && (!innermost || file == "" || name == ""):
		return ""
	case line != 0:
		file += ":" + strconv.Itoa(int(line))
	}
	if name == "" {
		return file
	}
	return name + " (" + file + ")"
}

func clipFrame(s string) string { return plain(s[:min(maxFrameBytes, len(s))]) }

// resolve puts source lines in the place of frames whose origins are known.
func (t *lineTable) resolve(frames []frame, origins vet.Origins) (stack []string) {
	for _, f := range frames {
		if at := origins.Of(f.offset); at >= 0 {
			if places := t.at(at); len(places) > 0 {
				stack = append(stack, places...)
				continue
			}
		}
		stack = append(stack, throughInterface(f.function))
	}
	return stack[:min(len(stack), maxFrames)]
}

// throughInterface leaves of the function by which TinyGo gets through an
// interface, "interface:{A:func:{…}}.A$invoke(i32)", the method.
func throughInterface(function string) string {
	before, _, ok := strings.Cut(function, "$invoke")
	if !ok || !strings.HasPrefix(function, "interface:") {
		return function
	}
	return before[strings.LastIndexByte(before, '.')+1:]
}

// withoutRuntime leaves out how a compiler's runtime came from a panic to its
// trap: authors look for the function of theirs that panicked.
func withoutRuntime(stack []string) []string {
	first := slices.IndexFunc(stack, func(f string) bool { return !strings.HasPrefix(f, "runtime.") })
	return stack[max(first, 0):]
}

// frame is a function of a guest's stack; offset is where it stood in the code
// that vet wrote, -1 if that is not known.
type frame struct {
	function string
	offset   int
}

// offsetOf reads a line of wazero's trace that tells of a source: "0x1f: w:1".
func offsetOf(line string) (int, bool) {
	hex, ok := strings.CutSuffix(line, ": "+vet.LineFile+":1")
	if !ok || !strings.HasPrefix(hex, "0x") {
		return 0, false
	}
	n, err := strconv.ParseUint(hex[2:], 16, 31)
	return int(n), err == nil
}
