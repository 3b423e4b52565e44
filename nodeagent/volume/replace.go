package volume

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

const (
	dataLink = "..data"
	nextLink = "..data_tmp"
)

// replace makes dir show exactly these files, switching from the old ones to
// the new at one instant: what a reader sees are links by way of ..data, which
// is renamed over.
//
//	key      -> ..data/key
//	..data   -> ..2026_01_02_15_04_05.1
//	..2026_01_02_15_04_05.1/key
func replace(dir string, files map[string]file, group *int64, now time.Time) error {
	old, err := os.Readlink(filepath.Join(dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && same(filepath.Join(dir, old), files, group) {
		return links(dir, files)
	}
	fresh, err := os.MkdirTemp(dir, now.UTC().Format("..2006_01_02_15_04_05."))
	if err != nil {
		return err
	}
	if err := write(fresh, files, group); err != nil {
		return errors.Join(err, os.RemoveAll(fresh))
	}
	next := filepath.Join(dir, nextLink)
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.Symlink(filepath.Base(fresh), next); err != nil {
		return err
	}
	if err := os.Rename(next, filepath.Join(dir, dataLink)); err != nil {
		return err
	}
	if err := links(dir, files); err != nil {
		return err
	}
	return sweep(dir, filepath.Base(fresh))
}

func write(dir string, files map[string]file, group *int64) error {
	if err := os.Chmod(dir, 0o755); err != nil {
		return err
	}
	for path, f := range files {
		full := filepath.Join(dir, path)
		if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(full, f.data, 0o600); err != nil {
			return err
		}
		if group != nil {
			if err := os.Chown(full, -1, int(*group)); err != nil {
				return fmt.Errorf("fsGroup: %w", err)
			}
		}
		if err := os.Chmod(full, mode(f, group)); err != nil {
			return err
		}
	}
	return nil
}

// mode lets the group read too, where there is one.
func mode(f file, group *int64) fs.FileMode {
	m := fs.FileMode(f.mode & 0o777)
	if group != nil {
		m |= 0o040
	}
	return m
}

// same says whether dir holds just these files.
func same(dir string, files map[string]file, group *int64) bool {
	n := 0
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		rel, err := filepath.Rel(dir, path)
		if err != nil {
			return err
		}
		f, ok := files[rel]
		if !ok {
			return fs.SkipAll
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if bytes.Equal(data, f.data) && info.Mode().Perm() == mode(f, group) {
			n++
			return nil
		}
		return fs.SkipAll
	})
	return err == nil && n == len(files) && countFiles(dir) == n
}

func countFiles(dir string) int {
	n := 0
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			n++
		}
		return nil
	})
	return n
}

// links makes the names that readers use, and removes those of files that went.
func links(dir string, files map[string]file) error {
	want := map[string]bool{}
	for path := range files {
		name, _, _ := strings.Cut(path, string(filepath.Separator))
		want[name] = true
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), "..") {
			continue
		}
		if want[e.Name()] {
			delete(want, e.Name())
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	for name := range want {
		if err := os.Symlink(filepath.Join(dataLink, name), filepath.Join(dir, name)); err != nil {
			return err
		}
	}
	return nil
}

// sweep removes older versions.
func sweep(dir, keep string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var errs []error
	for _, e := range entries {
		if e.IsDir() && strings.HasPrefix(e.Name(), "..2") && e.Name() != keep {
			errs = append(errs, os.RemoveAll(filepath.Join(dir, e.Name())))
		}
	}
	return errors.Join(errs...)
}
