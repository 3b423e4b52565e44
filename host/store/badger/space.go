package badger

import (
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/berth-dev/berth/host/store"
)

// Badger writes through memory maps, where a full disk is no error but a signal
// that ends the process. So writes are refused while there is still room for
// what Badger does by itself: flushing three tables and merging some. Deletions go
// on for longer, also those that take several writes, since they are the way out.
const (
	startReserve  = 128 << 20
	reserve       = 256 << 20
	deleteReserve = 160 << 20
	spaceAge      = 500 * time.Millisecond
)

// space remembers how much room the disk had a moment ago.
type space struct {
	dir  string
	free func(dir string) (uint64, error)

	mu    sync.Mutex
	bytes uint64
	read  time.Time
}

// start refuses a disk on which Badger could not even begin its files.
func (s *space) start() error {
	bytes, err := s.free(s.dir)
	if err != nil {
		return fmt.Errorf("%w: room on the disk of %s is unknown: %w", store.ErrNoSpace, s.dir, err)
	}
	if bytes < startReserve {
		return fmt.Errorf("%w: the disk of %s has %d MiB left, and a start takes %d: free some", store.ErrNoSpace, s.dir, bytes>>20, startReserve>>20)
	}
	return nil
}

func (s *space) check(b store.Batch) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.read) > spaceAge {
		bytes, err := s.free(s.dir)
		if err != nil {
			return fmt.Errorf("%w: room on the disk of %s is unknown: %w", store.ErrNoSpace, s.dir, err)
		}
		s.bytes, s.read = bytes, time.Now()
	}
	need := uint64(reserve)
	if b.Frees || len(b.Puts) == 0 {
		need = deleteReserve
	}
	if s.bytes < need {
		return fmt.Errorf("%w: the disk of %s has %d MiB left, and %d are kept in reserve: free some", store.ErrNoSpace, s.dir, s.bytes>>20, need>>20)
	}
	return nil
}

// diskFree is what an ordinary user may still write.
func diskFree(dir string) (uint64, error) {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(dir, &fs); err != nil {
		return 0, err
	}
	return fs.Bavail * uint64(fs.Bsize), nil
}
