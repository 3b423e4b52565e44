package engine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// work is an empty folder for one load. It is locked, which the kernel undoes
// when its process ends in whatever way.
type work struct {
	dir  string
	lock *os.File
}

// workPrefix begins their names.
const workPrefix = "work-"

func (c cache) work() (work, error) {
	for {
		dir, err := os.MkdirTemp(c.dir, workPrefix)
		if err != nil {
			return work{}, err
		}
		lock, err := lockFolder(dir)
		if err == nil {
			return work{dir, lock}, nil
		}
		if !errors.Is(err, errTaken) {
			return work{}, errors.Join(err, os.RemoveAll(dir))
		}
		// A host that starts took it for a leftover, before it was locked.
	}
}

func (w work) remove() {
	_ = os.RemoveAll(w.dir)
	_ = w.lock.Close()
}

// removeLeftovers removes the folders of loads that a crash cut short, but not
// those at which this process or another that shares the cache is at work.
func removeLeftovers(dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), workPrefix) {
			continue
		}
		left := filepath.Join(dir, e.Name())
		lock, err := lockFolder(left)
		if errors.Is(err, errTaken) {
			continue
		}
		if err != nil {
			return err
		}
		work{left, lock}.remove()
	}
	return nil
}

var errTaken = errors.New("the folder is another's, or gone")

// lockFolder locks a folder that is there and that nobody else has locked.
func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if errors.Is(err, os.ErrNotExist) {
		return nil, errTaken
	}
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		// Whoever had it before may have removed it.
		if _, err = os.Stat(dir); err == nil {
			return f, nil
		}
	}
	_ = f.Close()
	if errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, os.ErrNotExist) {
		return nil, errTaken
	}
	return nil, fmt.Errorf("lock %s: %w", dir, err)
}
