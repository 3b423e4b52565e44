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
// there are, reading it backwards. Pieces belong to the line that they begin.
func tailOffset(f *os.File, n int64) (offset, found int64, err error) {
	info, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	end := info.Size()
	if n <= 0 {
		return end, 0, nil
	}
	var (
		block   = make([]byte, 32<<10)
		carry   []byte // the beginning of a record whose start lies further left
		starts  int64
		tailPos = end
		first   = true
	)
	for pos := end; pos > 0; {
		size := min(int64(len(block)), pos)
		pos -= size
		if _, err := f.ReadAt(block[:size], pos); err != nil {
			return 0, 0, err
		}
		chunk := append(bytes.Clone(block[:size]), carry...)
		for {
			i := bytes.LastIndexByte(chunk[:max(len(chunk)-1, 0)], '\n')
			if i < 0 {
				break
			}
			rec := chunk[i+1:]
			if ends(rec) || first {
				if starts == n {
					return tailPos, n, nil
				}
				starts++
			}
			first = false
			tailPos = pos + int64(i) + 1
			chunk = chunk[:i+1]
		}
		carry = chunk
		if len(carry) > 4*maxPiece {
			carry = carry[:4*maxPiece] // no record of ours is that long
		}
	}
	if len(carry) > 0 {
		if ends(carry) || first {
			if starts == n {
				return tailPos, n, nil
			}
			starts++
		}
		tailPos = 0
	}
	return tailPos, starts, nil
}

// ends says whether a record ends its line.
func ends(record []byte) bool {
	fields := bytes.SplitN(record, []byte{' '}, 4)
	return len(fields) < 3 || !bytes.HasPrefix(fields[2], []byte("P"))
}
