package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
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

// lineTable says what stands where in a module's source. A child makes it from
// the debug information of the module that was uploaded.
type lineTable struct {
	Files []string  `json:"files"`
	Names []string  `json:"names"`
	Rows  []lineRow `json:"rows"` // by At
}

// lineRow is the place of the code from an offset of the uploaded code section
// on: the innermost function first, then those that it was inlined into.
type lineRow struct {
	At     int         `json:"a"`
	Places []linePlace `json:"p"`
}

// linePlace is a function, a file and a line; Names and Files hold the first two.
type linePlace [3]int

// lines has a child read the debug information of a module.
func (e *Engine) lines(ctx context.Context, wasm []byte) (*lineTable, error) {
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
	return readLines(data)
}

// readLines reads what a child left, which may be anything.
func readLines(data []byte) (*lineTable, error) {
	t := new(lineTable)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, fmt.Errorf("source lines: %w", err)
	}
	for i, r := range t.Rows {
		if i > 0 && r.At < t.Rows[i-1].At || len(r.Places) > maxInlined {
			return nil, errors.New("source lines: a row out of order, or too long")
		}
		for _, p := range r.Places {
			if p[0] < 0 || p[0] >= len(t.Names) || p[1] < 0 || p[1] >= len(t.Files) {
				return nil, errors.New("source lines: a row names what is not there")
			}
		}
	}
	return t, nil
}

// at describes the code at an offset, the innermost function first; nothing if
// that is unknown.
func (t *lineTable) at(offset int) (frames []string) {
	if t == nil {
		return nil
	}
	i, found := slices.BinarySearchFunc(t.Rows, offset, func(r lineRow, at int) int { return r.At - at })
	if !found {
		i--
	}
	if i < 0 {
		return nil
	}
	for _, p := range t.Rows[i].Places {
		if p[2] == 0 {
			continue // a compiler's own, such as the way through an interface
		}
		place := t.Files[p[1]] + ":" + strconv.Itoa(p[2])
		if name := t.Names[p[0]]; name != "" {
			place = name + " (" + place + ")"
		}
		frames = append(frames, clipFrame(place))
	}
	return frames
}

func clipFrame(s string) string { return plain(s[:min(maxFrameBytes, len(s))]) }

// resolve puts source lines in the place of the offsets that vet's line table
// gave to frames.
func (t *lineTable) resolve(frames []frame) (stack []string) {
	for _, f := range frames {
		if f.offset >= 0 {
			if places := t.at(f.offset); len(places) > 0 {
				stack = append(stack, places...)
				continue
			}
		}
		stack = append(stack, f.function)
	}
	return stack[:min(len(stack), maxFrames)]
}

// withoutRuntime leaves out how a compiler's runtime came from a panic to its
// trap: authors look for the function of theirs that panicked.
func withoutRuntime(stack []string) []string {
	first := slices.IndexFunc(stack, func(f string) bool { return !strings.HasPrefix(f, "runtime.") })
	return stack[max(first, 0):]
}

// frame is a function of a guest's stack; offset is where it stood in the
// uploaded code, -1 if that is not known.
type frame struct {
	function string
	offset   int
}

// offsetOf reads a line of wazero's trace that tells of a source: "0x1f: w:32".
func offsetOf(line string) (int, bool) {
	_, at, ok := strings.Cut(line, ": "+vet.LineFile+":")
	if !ok || !strings.HasPrefix(line, "0x") {
		return 0, false
	}
	n, err := strconv.Atoi(at)
	return n - 1, err == nil && n > 0
}
