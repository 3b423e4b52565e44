package logs

import (
	"bytes"
	"io"
	"os"
)

// seekTail has the chain begin where n lines are left.
func (c *chain) seekTail(n int64) error {
	for i := len(c.files) - 1; i >= 0; i-- {
		offset, found, err := tailOffset(c.files[i], n)
		if err != nil {
			return err
		}
		if found < n && i > 0 {
			n -= found
			continue
		}
		for range i {
			c.next()
		}
		_, err = c.files[0].Seek(offset, io.SeekStart)
		return err
	}
	return nil
}

// tailOffset finds where the last n whole lines of a file begin, and how many
// there are. Pieces belong to the line that they begin.
func tailOffset(f *os.File, n int64) (offset, found int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	offset = info.Size()
	if n <= 0 {
		return offset, 0, nil
	}
	last := true
	err = backwards(f, offset, func(at int64, record []byte) bool {
		if ends(record) || last {
			if found == n {
				return false
			}
			found++
		}
		last, offset = false, at
		return true
	})
	return offset, found, err
}

// backwards gives the records of a file from its end, each with where it begins,
// until each wants no more.
func backwards(f io.ReaderAt, end int64, each func(at int64, record []byte) bool) error {
	block := make([]byte, 32<<10)
	var carry []byte // a record whose start lies further left
	for pos := end; pos > 0; {
		size := min(int64(len(block)), pos)
		pos -= size
		if _, err := f.ReadAt(block[:size], pos); err != nil {
			return err
		}
		chunk := append(bytes.Clone(block[:size]), carry...)
		for {
			i := bytes.LastIndexByte(chunk[:max(len(chunk)-1, 0)], '\n')
			if i < 0 {
				break
			}
			if !each(pos+int64(i)+1, chunk[i+1:]) {
				return nil
			}
			chunk = chunk[:i+1]
		}
		carry = chunk[:min(len(chunk), 4*maxPiece)] // no record of ours is longer
	}
	if len(carry) > 0 {
		each(0, carry)
	}
	return nil
}

// ends says whether a record ends its line.
func ends(record []byte) bool {
	fields := bytes.SplitN(record, []byte{' '}, 4)
	return len(fields) < 3 || !bytes.HasPrefix(fields[2], []byte("P"))
}
