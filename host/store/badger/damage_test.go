package badger_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// A damage does to the files of a closed store what disks, people and copies
// that were cut do. older holds the same store as it was some time before.
type damage struct {
	name string
	do   func(rng *rand.Rand, file, older string) error
}

// damaged are the files, each by the pattern of its name and the damages that
// make sense for it.
var damaged = []string{"*.sst", "*.mem", "first *.vlog", "last *.vlog", "MANIFEST", "KEYREGISTRY", "DISCARD", "WITNESS"}

var damages = []damage{
	{"one bit flipped", func(rng *rand.Rand, file, _ string) error { return bend(file, rng, 1, 1) }},
	{"bits flipped at many places", func(rng *rand.Rand, file, _ string) error { return bend(file, rng, 16, 1) }},
	{"noise of 4 KiB", func(rng *rand.Rand, file, _ string) error { return bend(file, rng, 1, 4096) }},
	{"cut somewhere", func(rng *rand.Rand, file, _ string) error { return cutAt(file, rng.Float64()) }},
	{"cut by a byte", func(_ *rand.Rand, file, _ string) error { return cutAt(file, 1) }},
	{"of no length", func(_ *rand.Rand, file, _ string) error { return os.Truncate(file, 0) }},
	{"gone", func(_ *rand.Rand, file, _ string) error { return os.Remove(file) }},
	{"its tail twice", func(_ *rand.Rand, file, _ string) error { return tailTwice(file) }},
	{"of an older state", func(_ *rand.Rand, file, older string) error { return olden(file, older) }},
	{"swapped with another", func(rng *rand.Rand, file, _ string) error { return swap(file, rng) }},
}

// pick chooses one of the files that are there.
func pick(rng *rand.Rand, dir, pattern string) (string, error) {
	which, pattern, ordered := strings.Cut(pattern, " ")
	if !ordered {
		pattern, which = which, ""
	}
	files, err := filepath.Glob(filepath.Join(dir, pattern))
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, fmt.Errorf("no file is called %s", pattern))
	}
	switch which {
	case "first":
		return slices.Min(files), nil
	case "last":
		return slices.Max(files), nil
	}
	return files[rng.IntN(len(files))], nil
}

// used is how far a file holds more than zeros.
func used(data []byte) int { return len(bytes.TrimRight(data, "\x00")) }

func bend(file string, rng *rand.Rand, places, length int) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	end := max(used(data), 1)
	for range places {
		at := rng.IntN(end)
		if length == 1 {
			data[at] ^= 1 << rng.IntN(8)
			continue
		}
		for i := at; i < min(at+length, len(data)); i++ {
			data[i] = byte(rng.Uint32())
		}
	}
	return write(file, data)
}

func cutAt(file string, share float64) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	return os.Truncate(file, int64(share*float64(max(used(data)-1, 0))))
}

func tailTwice(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	end := used(data)
	tail := data[max(end-4096, 0):end]
	return write(file, slices.Concat(data[:end], tail, data[min(end+len(tail), len(data)):]))
}

// olden puts the file as it once was in its place; one that was not there then
// goes.
func olden(file, older string) error {
	err := copyFile(filepath.Join(older, filepath.Base(file)), file)
	if errors.Is(err, os.ErrNotExist) {
		return os.Remove(file)
	}
	return err
}

// swap exchanges a file with another of its kind, or with any.
func swap(file string, rng *rand.Rand) error {
	others, err := filepath.Glob(filepath.Join(filepath.Dir(file), "*"+filepath.Ext(file)))
	if err != nil {
		return err
	}
	others = slices.DeleteFunc(others, func(other string) bool { return other == file })
	if len(others) == 0 {
		return os.Rename(file, file+".away")
	}
	other := others[rng.IntN(len(others))]
	return errors.Join(os.Rename(file, file+".swap"), os.Rename(other, file), os.Rename(file+".swap", other))
}

// write keeps the holes of files that are mapped.
func write(file string, data []byte) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	const page = 64 << 10
	for at := 0; at < len(data) && err == nil; at += page {
		if piece := data[at:min(at+page, len(data))]; used(piece) > 0 {
			_, err = f.WriteAt(piece, int64(at))
		}
	}
	return errors.Join(err, f.Truncate(int64(len(data))), f.Close())
}

func copyFile(from, to string) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return write(to, data)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := copyAll(from, to); err != nil {
		t.Fatal(err)
	}
}

func copyAll(from, to string) error {
	files, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range files {
		err = errors.Join(err, copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())))
	}
	return err
}

// trim cuts what logs have in reserve, as Badger does when it closes them: a
// hundred copies of it would take their time.
func trim(dir string) error {
	var err error
	for _, pattern := range []string{"*.mem", "*.vlog"} {
		files, globErr := filepath.Glob(filepath.Join(dir, pattern))
		err = errors.Join(err, globErr)
		for _, file := range files {
			data, readErr := os.ReadFile(file)
			err = errors.Join(err, readErr, os.Truncate(file, int64(min(used(data)+4096, len(data)))))
		}
	}
	return err
}

// takeImage copies a store that is open, as a crash would leave it: between two
// compactions.
func takeImage(t *testing.T, from, to string) {
	t.Helper()
	for range 1000 {
		before := manifestOf(t, from)
		err := copyAll(from, to)
		if err == nil && bytes.Equal(before, manifestOf(t, from)) {
			if err := trim(to); err != nil {
				t.Fatal(err)
			}
			return
		}
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		if err := os.RemoveAll(to); err != nil {
			t.Fatal(err)
		}
		if err := os.Mkdir(to, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("the store never comes to rest")
}

func manifestOf(t *testing.T, dir string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "MANIFEST"))
	if err != nil {
		t.Fatal(err)
	}
	return data
}
