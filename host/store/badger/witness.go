package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"os"
	"path/filepath"

	"github.com/berth-dev/berth/host/store"
)

// witness says, in a file beside Badger's own, which commit was acknowledged
// last. A write-ahead log that was cut or removed leaves a state that was whole
// once: only by the witness can one tell that it is an old one.
//
// The file has two slots, written by turns, so that a torn write leaves the one
// before. It is synced when it is made and when it is closed: until then a crash
// of the machine may leave it behind the data, which weakens the check and
// refuses nothing.
type witness struct{ file *os.File }

const (
	witnessFile  = "WITNESS"
	witnessMagic = "BERTHWIT"
	slotSize     = 32
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// slot is magic, commit (u64), the sum of both (u32), zeros.
func slot(commit uint64) []byte {
	s := binary.BigEndian.AppendUint64([]byte(witnessMagic), commit)
	s = binary.BigEndian.AppendUint32(s, crc32.Checksum(s, castagnoli))
	return append(s, make([]byte, slotSize-len(s))...)
}

// readWitness returns the newest commit that the file names; found is false
// without a file.
func readWitness(dir string) (commit uint64, found bool, err error) {
	path := filepath.Join(dir, witnessFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("read the witness of commits: %w", err)
	}
	for _, at := range []int{0, slotSize} {
		if len(data) < at+slotSize {
			break
		}
		n := binary.BigEndian.Uint64(data[at+len(witnessMagic):])
		if string(data[at:at+slotSize]) == string(slot(n)) {
			commit, found = max(commit, n), true
		}
	}
	if !found {
		return 0, false, fmt.Errorf("%w: %s is not what berth wrote, so nobody can tell whether the newest writes are there; remove the file to go on with what is found", store.ErrCorrupt, path)
	}
	return commit, true, nil
}

// openWitness makes the file anew and keeps it open.
func openWitness(dir string, commit uint64) (*witness, error) {
	path := filepath.Join(dir, witnessFile)
	file, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("make the witness of commits: %w", err)
	}
	_, err = file.Write(append(slot(commit), slot(commit)...))
	err = errors.Join(err, file.Sync())
	if err == nil {
		err = os.Rename(path+".new", path)
	}
	if err == nil {
		err = syncDir(dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the witness of commits: %w", err), file.Close())
	}
	return &witness{file}, nil
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// acknowledge notes a commit that is durable.
func (w *witness) acknowledge(commit uint64) error {
	_, err := w.file.WriteAt(slot(commit), int64(commit%2)*slotSize)
	return err
}

func (w *witness) close() error { return errors.Join(w.file.Sync(), w.file.Close()) }
