package store

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"strings"
)

// backupReader reads a backup that anybody may have written or cut.
type backupReader struct {
	buf     *bufio.Reader
	sum     hash.Hash
	offset  int64
	records uint64
	lastKey string
}

func newBackupReader(r io.Reader) *backupReader {
	return &backupReader{buf: bufio.NewReaderSize(r, 1<<20), sum: sha256.New()}
}

func (b *backupReader) damaged(why string) error {
	return fmt.Errorf("%w at byte %d: %s", ErrDamaged, b.offset, why)
}

// read takes n bytes into the sum. It grows as bytes come, not as lengths
// promise.
func (b *backupReader) read(n int) ([]byte, error) {
	var p bytes.Buffer
	got, err := io.CopyN(&p, b.buf, int64(n))
	b.offset += got
	if errors.Is(err, io.EOF) {
		return nil, b.damaged("it ends early")
	}
	if err != nil {
		return nil, err
	}
	b.sum.Write(p.Bytes())
	return p.Bytes(), nil
}

func (b *backupReader) header() error {
	head, err := b.read(len(backupMagic) + 4)
	if err != nil {
		return err
	}
	if string(head[:len(backupMagic)]) != backupMagic {
		return b.damaged("this is no backup of berth")
	}
	if v := binary.BigEndian.Uint32(head[len(backupMagic):]); v != backupVersion {
		return fmt.Errorf("%w: backup version %d, this berth reads %d: restore with the berth that made it", ErrFormat, v, backupVersion)
	}
	return nil
}

// next returns a record, or at the end, when all is checked, one without a key
// and the backup's revision.
func (b *backupReader) next() (rec Record, rev int64, err error) {
	kind, err := b.read(1)
	if err != nil {
		return Record{}, 0, err
	}
	switch kind[0] {
	case recordFrame:
		rec, err = b.record()
		return rec, 0, err
	case endFrame:
		rev, err = b.end()
		return Record{}, rev, err
	}
	return Record{}, 0, b.damaged(fmt.Sprintf("frame of kind %d", kind[0]))
}

func (b *backupReader) record() (Record, error) {
	head, err := b.read(16)
	if err != nil {
		return Record{}, err
	}
	keyLen, valueLen := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[12:])
	rec := Record{Revision: int64(binary.BigEndian.Uint64(head[4:]))}
	if keyLen == 0 || keyLen > maxKey || valueLen > maxValue || rec.Revision < 0 {
		return Record{}, b.damaged("impossible lengths")
	}
	key, err := b.read(int(keyLen))
	if err != nil {
		return Record{}, err
	}
	rec.Key = string(key)
	if rec.Key <= b.lastKey {
		return Record{}, b.damaged("records out of order")
	}
	if !restorable(rec.Key) {
		return Record{}, b.damaged(fmt.Sprintf("unknown record %q", rec.Key))
	}
	b.lastKey = rec.Key
	b.records++
	rec.Value, err = b.read(int(valueLen))
	return rec, err
}

func restorable(key string) bool {
	if strings.HasPrefix(key, manifestPrefix) || strings.HasPrefix(key, chunkPrefix) {
		return true
	}
	_, err := decodeKey(key)
	return err == nil
}

func (b *backupReader) end() (int64, error) {
	tail, err := b.read(16)
	if err != nil {
		return 0, err
	}
	want := b.sum.Sum(nil)
	sum, err := b.read(len(want))
	if err != nil {
		return 0, err
	}
	rev := int64(binary.BigEndian.Uint64(tail[8:]))
	switch {
	case !bytes.Equal(sum, want):
		return 0, b.damaged("the checksum is wrong")
	case binary.BigEndian.Uint64(tail) != b.records:
		return 0, b.damaged("records are missing")
	case rev < firstRevision || rev > 1<<62:
		return 0, b.damaged("impossible revision")
	}
	if _, err := b.buf.ReadByte(); !errors.Is(err, io.EOF) {
		return 0, b.damaged("something follows the end")
	}
	return rev, nil
}
