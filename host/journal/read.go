package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// maxLine bounds a line.
const maxLine = 64 << 20

// Path is the file of a folder that begins with a number.
func Path(dir string, first uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%020d.jsonl", first))
}

// Firsts are the numbers that files begin with, sorted.
func Firsts(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var all []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".jsonl")
		if n, err := strconv.ParseUint(name, 10, 64); ok && err == nil {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return all, nil
}

// Lines calls do for each whole line of a file, while it says so.
func Lines(file string, do func([]byte) (bool, error)) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer f.Close()
	in := bufio.NewReaderSize(f, 1<<20)
	var long []byte
	for {
		part, err := in.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) && len(long) < maxLine {
			long = append(long, part...)
			continue
		}
		if errors.Is(err, io.EOF) {
			return nil // what was cut is no line
		}
		if err != nil {
			return err
		}
		whole := part
		if len(long) > 0 {
			long = append(long, part...)
			whole, long = long, nil
		}
		if more, err := do(whole); err != nil || !more {
			return err
		}
	}
}
