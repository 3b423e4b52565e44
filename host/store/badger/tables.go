package badger

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/dgraph-io/badger/v4"
	"github.com/dgraph-io/badger/v4/fb"
	"github.com/dgraph-io/badger/v4/options"
	"github.com/dgraph-io/badger/v4/pb"
	"github.com/dgraph-io/badger/v4/table"
	"github.com/dgraph-io/badger/v4/y"
	"github.com/klauspost/compress/snappy"
	"golang.org/x/sync/errgroup"
	"google.golang.org/protobuf/proto"

	"github.com/berth-dev/berth/host/store"
)

// checkTables reads every block of every table that the MANIFEST names. Badger
// itself passes over a table with a damaged index, ends an iteration early at a
// damaged block, and may panic where nobody can catch it.
func checkTables(dir string, opts badger.Options) error {
	listed, err := readManifest(dir, opts)
	if err != nil {
		return err
	}
	var g errgroup.Group
	g.SetLimit(runtime.GOMAXPROCS(0))
	for id, t := range listed {
		g.Go(func() error {
			path := table.NewFilename(id, dir)
			data, err := os.ReadFile(path)
			if errors.Is(err, os.ErrNotExist) {
				return fmt.Errorf("%w: %s is missing", store.ErrCorrupt, path)
			}
			if err != nil {
				return fmt.Errorf("check tables: %w", err)
			}
			if err := guarded(func() error { return checkTable(data, t.Compression) }); err != nil {
				return fmt.Errorf("%w: %s is damaged: %w", store.ErrCorrupt, path, err)
			}
			return nil
		})
	}
	return g.Wait()
}

// readManifest returns the tables that belong to the database.
func readManifest(dir string, opts badger.Options) (map[uint64]badger.TableManifest, error) {
	path := filepath.Join(dir, badger.ManifestFilename)
	file, err := os.Open(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, checkUnlisted(dir, path)
	}
	if err != nil {
		return nil, fmt.Errorf("check tables: %w", err)
	}
	defer file.Close()
	m, _, err := badger.ReplayManifestFile(file, opts.ExternalMagicVersion, opts)
	if err != nil {
		why, _, _ := strings.Cut(err.Error(), "\n") // the rest of some is advice that is none here
		return nil, fmt.Errorf("%w: %s is damaged: %s", store.ErrCorrupt, path, why)
	}
	return m.Tables, nil
}

// checkUnlisted refuses a directory with data and no MANIFEST: Badger would
// begin a new one and remove the tables.
func checkUnlisted(dir, manifest string) error {
	for _, pattern := range []string{"*.sst", "*.mem", "*.vlog"} {
		found, err := filepath.Glob(filepath.Join(dir, pattern))
		if err != nil {
			return err
		}
		if len(found) > 0 {
			return fmt.Errorf("%w: %s is missing", store.ErrCorrupt, manifest)
		}
	}
	return nil
}

var errFooter = errors.New("its end is not that of a table")

// checkTable holds a table against the sums within it.
//
//	block* index indexLen(u32) sum sumLen(u32)
func checkTable(data []byte, compression options.CompressionType) error {
	rest, sum, err := cutSum(data)
	if err != nil {
		return err
	}
	rest, index, err := cutPart(rest)
	if err != nil {
		return err
	}
	if err := y.VerifyChecksum(index, sum); err != nil {
		return fmt.Errorf("index: %w", err)
	}
	blocks := fb.GetRootAsTableIndex(index, 0)
	var buf []byte
	for i := range blocks.OffsetsLength() {
		var at fb.BlockOffset
		blocks.Offsets(&at, i)
		from, to := int(at.Offset()), int(at.Offset())+int(at.Len())
		if from > to || to > len(rest) {
			return fmt.Errorf("block %d lies outside", i)
		}
		if buf, err = checkBlock(buf, rest[from:to], compression); err != nil {
			return fmt.Errorf("block %d at byte %d: %w", i, from, err)
		}
	}
	return nil
}

// checkBlock returns its buffer for the next one.
func checkBlock(buf, block []byte, compression options.CompressionType) ([]byte, error) {
	switch compression {
	case options.None:
	case options.Snappy:
		n, err := snappy.DecodedLen(block)
		if err != nil || n > maxBlock {
			return buf, errors.Join(err, errFooter)
		}
		if block, err = snappy.Decode(buf[:cap(buf)], block); err != nil {
			return buf, err
		}
		if cap(block) > cap(buf) {
			buf = block
		}
	default:
		return buf, fmt.Errorf("compression %d is not one that berth uses", compression)
	}
	body, sum, err := cutSum(block)
	if err != nil {
		return buf, err
	}
	return buf, y.VerifyChecksum(body, sum)
}

// maxBlock is beyond the largest block: one record and what a block holds.
const maxBlock = 64 << 20

// cutPart takes off the end what is followed by its length.
func cutPart(data []byte) (rest, part []byte, err error) {
	at := len(data) - 4
	if at < 0 {
		return nil, nil, errFooter
	}
	n := int(binary.BigEndian.Uint32(data[at:]))
	if n > at {
		return nil, nil, errFooter
	}
	return data[:at-n], data[at-n : at], nil
}

func cutSum(data []byte) (rest []byte, sum *pb.Checksum, err error) {
	rest, part, err := cutPart(data)
	if err != nil {
		return nil, nil, err
	}
	sum = &pb.Checksum{}
	if err := proto.Unmarshal(part, sum); err != nil {
		return nil, nil, fmt.Errorf("sum: %w", err)
	}
	return rest, sum, nil
}
