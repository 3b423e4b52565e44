package logs

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"sync"
	"time"
)

// ErrBehind: the log was rotated away faster than its follower read it. What
// was read until then is whole.
var ErrBehind = errors.New("the log was rotated away before it was read")

// How often a followed log is looked at: one that grows, and one that does not.
// Between two looks a writer would have to fill all files that are kept, or one
// is lost: with the usual 5 of 10 MiB that is 2 GB/s.
const (
	growingEvery = 20 * time.Millisecond
	pollEvery    = 100 * time.Millisecond
)

// maxHeld bounds the files that are held open for a follower: what rotation has
// removed takes room on the disk until then.
const maxHeld = 32

// chain is the files of one log that are still to be read, the oldest first.
// All are open, so that rotation takes none of them away; a chain that is
// chased grows while its reader waits for its client.
type chain struct {
	path string

	mu    sync.Mutex
	files []*os.File // one at least
	size  int64      // of the newest, when it was last looked at
}

// found is a file of a log as it was met.
type found struct {
	*os.File
	info fs.FileInfo
	met  int // under which number
}

// openChain opens all files of a log.
func openChain(path string) (*chain, error) {
	for range 100 { // a writer would have to fill all files each time
		all, err := gather(path)
		if err != nil {
			return nil, err
		}
		c := &chain{path: path}
		for _, one := range all {
			c.files = append(c.files, one.File)
		}
		// Files only move to higher numbers, and those were looked at later: none
		// is missed, as long as the one that was met first has not gone meanwhile.
		first := slices.MaxFunc(all, func(a, b found) int { return cmp.Compare(b.met, a.met) })
		if _, err := c.number(first.info); err == nil {
			return c, nil
		}
		c.close()
	}
	return nil, ErrBehind
}

// gather opens what lies there, the oldest first. What a rotation shows twice
// counts once.
func gather(path string) (all []found, err error) {
	defer func() {
		for i := range all {
			if err != nil {
				all[i].Close()
			}
		}
	}()
	missing := 0
	for i := 0; missing < 2; i++ { // a rotation under way leaves one number free
		f, err := os.Open(rotated(path, i))
		if errors.Is(err, fs.ErrNotExist) {
			missing++
			continue
		}
		if err != nil {
			return all, fmt.Errorf("open log: %w", err)
		}
		info, err := f.Stat()
		if err != nil {
			f.Close()
			return all, fmt.Errorf("open log: %w", err)
		}
		missing = 0
		if slices.ContainsFunc(all, func(had found) bool { return os.SameFile(had.info, info) }) {
			f.Close()
			continue
		}
		all = append(all, found{f, info, i})
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("open log %s: %w", path, fs.ErrNotExist)
	}
	slices.Reverse(all)
	slices.SortStableFunc(all, func(a, b found) int { return a.info.ModTime().Compare(b.info.ModTime()) })
	return all, nil
}

func (c *chain) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, f := range c.files {
		f.Close()
	}
}

// current is the oldest file that is still to be read.
func (c *chain) current() *os.File {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.files[0]
}

// more says whether there is a file behind the current one, into which nothing
// is written any more then.
func (c *chain) more() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.files) > 1
}

// next drops the current file.
func (c *chain) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[0].Close()
	c.files = c.files[1:]
}

// extend takes up the files that were begun since the last look.
func (c *chain) extend() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.files) < maxHeld {
		next, err := c.successor(c.files[len(c.files)-1])
		if next == nil || err != nil {
			return err
		}
		c.files, c.size = append(c.files, next), 0
	}
	return nil
}

// successor opens the file that was begun after f; nil if there is none yet.
func (c *chain) successor(f *os.File) (*os.File, error) {
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	for {
		at, err := c.number(info)
		if at <= 0 || err != nil {
			return nil, err
		}
		next, err := os.Open(rotated(c.path, at-1))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil // a rotation is under way: the next look finds it
		}
		if err != nil {
			return nil, fmt.Errorf("open log: %w", err)
		}
		// Files only move up. One that has not moved had this one before it.
		if again, err := c.number(info); err == nil && again == at {
			return next, nil
		}
		next.Close()
	}
}

// number finds under which number a file of the log lies: 0 is the newest. A log
// that is gone as a whole has no successors.
func (c *chain) number(info fs.FileInfo) (int, error) {
	for range 3 { // one that moves while we look can be missed
		missing := 0
		for i := 0; missing < 2; i++ {
			now, err := os.Stat(rotated(c.path, i))
			if err != nil {
				missing++
				continue
			}
			missing = 0
			if os.SameFile(now, info) {
				return i, nil
			}
		}
	}
	if _, err := os.Stat(c.path); err != nil {
		return 0, nil
	}
	return 0, ErrBehind
}

// chase extends the chain until ctx ends, whatever its reader waits for. What
// goes wrong the reader meets, too.
func (c *chain) chase(ctx context.Context) {
	timer := time.NewTimer(growingEvery)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		if c.extend() != nil {
			return
		}
		timer.Reset(c.pace())
	}
}

// pace is how soon to look again.
func (c *chain) pace() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	info, err := c.files[len(c.files)-1].Stat()
	if err != nil || info.Size() == c.size {
		return pollEvery
	}
	c.size = info.Size()
	return growingEvery
}
