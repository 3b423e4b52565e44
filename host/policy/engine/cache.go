package engine

import (
	"crypto/sha256"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

const (
	maxEntryBytes = 256 << 20
	maxCacheBytes = 2 << 30 // of all entries
	privateFolder = 0o700
	privateFile   = 0o600
)

// cache is the folder of compiled modules. Its files hold native code, so it
// belongs to this user alone. Each begins with the SHA-256 of the rest.
type cache struct {
	dir  string
	most int64 // bytes of all entries
}

func openCache(dir string) (cache, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return cache{}, err
	}
	if err := os.MkdirAll(dir, privateFolder); err != nil {
		return cache{}, fmt.Errorf("make the compile cache: %w", err)
	}
	if err := checkOwner(dir); err != nil {
		return cache{}, err
	}
	return cache{dir, maxCacheBytes}, removeLeftovers(dir)
}

// checkOwner makes sure that nobody else can put code where this process runs it.
func checkOwner(dir string) error {
	st, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	switch {
	case !st.IsDir():
		return fmt.Errorf("compile cache %s is not a folder", dir)
	case ok && int(owner.Uid) != os.Geteuid():
		return fmt.Errorf("compile cache %s belongs to user %d: remove it, or name another", dir, owner.Uid)
	case st.Mode().Perm()&0o077 != 0:
		return os.Chmod(dir, privateFolder)
	}
	return nil
}

// get returns an entry, or nil where there is none; a broken one is deleted.
func (c cache) get(name string) []byte {
	path := filepath.Join(c.dir, name)
	b, err := readPlain(path, ownFile)
	if err != nil || len(b) < sha256.Size {
		c.drop(name)
		return nil
	}
	sum, entry := b[:sha256.Size], b[sha256.Size:]
	if sha256.Sum256(entry) != [sha256.Size]byte(sum) {
		c.drop(name)
		return nil
	}
	now := time.Now()
	_ = os.Chtimes(path, now, now) // for trim
	return entry
}

// drop removes whatever is in an entry's place.
func (c cache) drop(name string) { _ = os.RemoveAll(filepath.Join(c.dir, name)) }

// put writes an entry beside its place and moves it there, so that no reader
// sees half of one.
func (c cache) put(name string, entry []byte) error {
	f, err := os.CreateTemp(c.dir, "entry-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	sum := sha256.Sum256(entry)
	_, err = f.Write(sum[:])
	if err == nil {
		_, err = f.Write(entry)
	}
	if closeErr := f.Close(); err == nil {
		err = closeErr
	}
	if err != nil {
		return err
	}
	if err := os.Rename(f.Name(), filepath.Join(c.dir, name)); err != nil {
		return err
	}
	return c.trim(name)
}

// trim removes the entries that were used longest ago, but never this one,
// until the rest is small enough: whoever uploads modules must not fill a disk.
func (c cache) trim(but string) error {
	entries, err := os.ReadDir(c.dir)
	if err != nil {
		return err
	}
	var files []os.FileInfo
	var total int64
	for _, e := range entries {
		st, err := e.Info()
		if err != nil || !st.Mode().IsRegular() {
			continue
		}
		total += st.Size()
		if st.Name() != but {
			files = append(files, st)
		}
	}
	slices.SortFunc(files, func(a, b os.FileInfo) int { return a.ModTime().Compare(b.ModTime()) })
	for _, st := range files {
		if total <= c.most {
			break
		}
		if err := os.Remove(filepath.Join(c.dir, st.Name())); err != nil && !os.IsNotExist(err) {
			return err
		}
		total -= st.Size()
	}
	return nil
}

// ownFile says whether a file is this user's, and nobody else may write to it.
func ownFile(st os.FileInfo) bool {
	owner, ok := st.Sys().(*syscall.Stat_t)
	return ok && int(owner.Uid) == os.Geteuid() && st.Mode().Perm()&^privateFile == 0
}

// readPlain reads a plain file of bounded size that is acceptable, and follows
// no link.
func readPlain(path string, acceptable func(os.FileInfo) bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !st.Mode().IsRegular() || st.Size() > maxEntryBytes || !acceptable(st) {
		return nil, errEntry
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, err
	}
	return b, nil
}

// takeOne reads the file of a child, which must be all that is in its folder.
func takeOne(path string, most int64) ([]byte, error) {
	files, err := os.ReadDir(filepath.Dir(path))
	if err != nil {
		return nil, err
	}
	if len(files) != 1 || files[0].Name() != filepath.Base(path) {
		return nil, fmt.Errorf("the compiler left something else than its code: %s", list(files))
	}
	return readPlain(path, func(st os.FileInfo) bool { return st.Size() <= most })
}

func list(entries []os.DirEntry) string {
	var names []string
	for _, e := range entries[:min(4, len(entries))] {
		names = append(names, e.Name())
	}
	return strings.Join(names, ", ")
}
