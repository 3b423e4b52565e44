package badger

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/dgraph-io/badger/v4"

	"github.com/berth-dev/berth/host/store"
)

// checkLogs looks through what Badger plays at open: the write-ahead logs of the
// memtables, and the last value log. Where an entry is broken Badger stops and
// cuts the log, as after a crash of the machine it must; whether that lost
// anything, the state and the witness say afterwards. So suspects are told only
// then: the logs with something behind their end.
func checkLogs(dir string) (suspects []string, err error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.mem"))
	if err != nil {
		return nil, err
	}
	values, err := filepath.Glob(filepath.Join(dir, "*.vlog"))
	if err != nil {
		return nil, err
	}
	if len(values) > 0 {
		logs = append(logs, slices.Max(values))
	}
	for _, path := range logs {
		end, more, err := checkLog(path)
		if err != nil {
			return nil, fmt.Errorf("check %s: %w", path, err)
		}
		if more {
			suspects = append(suspects, fmt.Sprintf("%s is damaged at byte %d", path, end))
		}
	}
	return suspects, nil
}

// logHeader is the length of a log's own header.
const logHeader = 20

// checkLog finds the end of a log, and whether anything but zeros follows. An
// entry that says to be longer than its file is cut off: Badger would make room
// for it, 8 GiB at most, before it looks further.
func checkLog(path string) (end int64, more bool, err error) {
	file, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return 0, false, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return 0, false, err
	}
	if info.Size() <= logHeader {
		return info.Size(), false, nil
	}
	if _, err := file.Seek(logHeader, io.SeekStart); err != nil {
		return 0, false, err
	}
	in := &logReader{buf: bufio.NewReaderSize(file, 1<<20), at: logHeader, size: info.Size()}
	for err = nil; err == nil; {
		end = in.at
		err = in.entry()
	}
	switch {
	case errors.Is(err, errRunsOn):
		return end, true, file.Truncate(end)
	case !errors.Is(err, errLogEnds):
		return end, false, err
	}
	more, err = anything(file, end)
	return end, more, err
}

var (
	errLogEnds = errors.New("the log ends")
	errRunsOn  = errors.New("an entry is longer than its file")
)

// logReader reads entries as Badger writes them:
//
//	meta userMeta keyLen(varint) valueLen(varint) expiresAt(varint) key value crc32c
type logReader struct {
	buf  *bufio.Reader
	at   int64
	size int64
	sum  uint32
}

func (r *logReader) ReadByte() (byte, error) {
	b, err := r.buf.ReadByte()
	if err == nil {
		r.at++
		r.sum = crc32.Update(r.sum, castagnoli, []byte{b})
	}
	return b, err
}

// entry reads one, whole by its sum.
func (r *logReader) entry() error {
	r.sum = 0
	var lengths [3]uint64
	for range 2 {
		if _, err := r.ReadByte(); err != nil {
			return errLogEnds
		}
	}
	for i := range lengths {
		n, err := binary.ReadUvarint(r)
		if err != nil {
			return errLogEnds
		}
		lengths[i] = n
	}
	body := int64(uint32(lengths[0])) + int64(uint32(lengths[1]))
	if r.at+body+crc32.Size > r.size {
		return errRunsOn
	}
	if _, err := io.CopyN(r, r.buf, body); err != nil {
		return err
	}
	var want [crc32.Size]byte
	if _, err := io.ReadFull(r.buf, want[:]); err != nil {
		return err
	}
	r.at += body + crc32.Size
	if binary.BigEndian.Uint32(want[:]) != r.sum {
		return errLogEnds
	}
	return nil
}

// Write takes what was read into the sum.
func (r *logReader) Write(p []byte) (int, error) {
	r.sum = crc32.Update(r.sum, castagnoli, p)
	return len(p), nil
}

// anything tells whether a file holds more than zeros from there on.
func anything(file *os.File, from int64) (bool, error) {
	if _, err := file.Seek(from, io.SeekStart); err != nil {
		return false, err
	}
	piece := make([]byte, 1<<20)
	for {
		n, err := file.Read(piece)
		if len(bytes.TrimLeft(piece[:n], "\x00")) > 0 {
			return true, nil
		}
		if errors.Is(err, io.EOF) {
			return false, nil
		}
		if err != nil {
			return false, err
		}
	}
}

// checkKeys refuses a file of keys that holds anything: berth encrypts nothing.
// Badger would make room for a key as long as the file says.
func checkKeys(dir string) error {
	const head, text = 16, "Hello Badger"
	path := filepath.Join(dir, badger.KeyRegistryFileName)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(data) != head+len(text) || string(data[head:]) != text {
		return fmt.Errorf("%w: %s is damaged; berth keeps no keys in it: remove the file and start again", store.ErrCorrupt, path)
	}
	return nil
}

// checkDiscard removes a file of statistics that Badger would trip over, or go
// round in circles with. It says which value logs are worth being rewritten, and
// nothing depends on it.
func checkDiscard(dir string, logger *slog.Logger) error {
	path := filepath.Join(dir, "DISCARD")
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) || err == nil && plausible(data) {
		return nil
	}
	if err != nil {
		return err
	}
	logger.Warn("removing damaged statistics of the store; they are gathered anew", "file", path)
	return os.Remove(path)
}

// leastDiscard is the length that Badger gives the file at first.
const leastDiscard = 1 << 20

// plausible says that each value log is there once: pairs of a log and its
// garbage in bytes, up to a log 0.
func plausible(discard []byte) bool {
	known := map[uint64]bool{}
	for rest := discard; len(rest) >= 16; rest = rest[16:] {
		log, garbage := binary.BigEndian.Uint64(rest), binary.BigEndian.Uint64(rest[8:])
		if log == 0 {
			break
		}
		if known[log] || log > math.MaxUint32 || garbage > math.MaxUint32 {
			return false
		}
		known[log] = true
	}
	return len(discard) >= leastDiscard
}
