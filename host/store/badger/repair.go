package badger

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// lockDir takes the directory for this process, in the way in which Badger and
// its tools do it; the lock dies with the process. Badger would take it only
// after the repair, and would give it up by closing alone.
func lockDir(dir string) (*os.File, error) {
	lock, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock data directory: %w", err)
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		err = fmt.Errorf("data directory %s is in use by another process: stop that berth, or choose another directory", dir)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	return lock, nil
}

// unlockDir gives the lock up at once. Closing is not enough: a child that is
// just being started holds a copy of the file until it runs its program.
func unlockDir(lock *os.File) error {
	return errors.Join(syscall.Flock(int(lock.Fd()), syscall.LOCK_UN), lock.Close())
}

// repair removes log files of no length. Badger makes a file, then gives it a
// length; killed in between, it refuses to open the next time. Nothing was ever
// written to such a file.
func repair(dir string, logger *slog.Logger) error {
	files, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("look for files to repair: %w", err)
	}
	for _, f := range files {
		if !strings.HasSuffix(f.Name(), ".mem") && !strings.HasSuffix(f.Name(), ".vlog") {
			continue
		}
		info, err := f.Info()
		if err != nil {
			return fmt.Errorf("look for files to repair: %w", err)
		}
		if info.Size() != 0 {
			continue
		}
		logger.Info("removing a file that a crash left empty", "file", f.Name())
		if err := os.Remove(filepath.Join(dir, f.Name())); err != nil {
			return fmt.Errorf("repair: %w", err)
		}
	}
	return nil
}

// quiet passes on what Badger says that matters: its warnings and errors.
type quiet struct{ logger *slog.Logger }

func (q quiet) Errorf(f string, args ...any)   { q.logger.Error(line(f, args), "from", "badger") }
func (q quiet) Warningf(f string, args ...any) { q.logger.Warn(line(f, args), "from", "badger") }
func (q quiet) Infof(f string, args ...any)    { q.logger.Debug(line(f, args), "from", "badger") }
func (q quiet) Debugf(string, ...any)          {}

func line(f string, args []any) string { return strings.TrimSpace(fmt.Sprintf(f, args...)) }
