package engine

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"hash/crc32"
)

// An entry is what wazero's compiler leaves for one module:
//
//	"WAZEVO" len version | functions u32 | offset u64 … | size u64 | code | crc32c
//	| 0 (no source map), or 1 | n u64 | (source u64, code u64) … | 0 u32 (no catch clauses)
//
// wazero compiles in the host, in silence and without limits, whenever it finds
// no entry under the name that it expects, or one of another version. So both
// are settled here first, and what is given to it refuses anything else.
var entryMagic = []byte("WAZEVO")

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

var errEntry = errors.New("the compiled code is broken")

// entryName is the name under which wazero looks for a module's code. features
// is what it knows of the processor.
func entryName(wasm []byte, features uint64) string {
	const noTermination = 0
	id := sha256.Sum256(append(wasm[:len(wasm):len(wasm)], noTermination))
	key := sha256.New()
	key.Write(id[:])
	key.Write(entryMagic)
	key.Write(binary.LittleEndian.AppendUint64(nil, features))
	return hex.EncodeToString(key.Sum(nil))
}

// findFeatures finds the processor's features from the name of a known module's
// entry, since wazero does not tell them.
func findFeatures(wasm []byte, name string) (uint64, bool) {
	const bits = 10
	for f := range uint64(1 << bits) {
		if entryName(wasm, f) == name {
			return f, true
		}
	}
	return 0, false
}

// checkEntry says whether wazero will take an entry as it is.
func checkEntry(b []byte, version string, functions int) error {
	head := append(append(bytes.Clone(entryMagic), byte(len(version))), version...)
	rest, ok := bytes.CutPrefix(b, head)
	if !ok || len(rest) < 4 {
		return errEntry
	}
	n := binary.LittleEndian.Uint32(rest)
	rest = rest[4:]
	if int64(n) != int64(functions) || len(rest) < 8*functions+8 {
		return errEntry
	}
	offsets, rest := rest[:8*functions], rest[8*functions:]
	size := binary.LittleEndian.Uint64(rest)
	rest = rest[8:]
	const tail = 4 + 1 + 4
	if uint64(len(rest)) < tail || size > uint64(len(rest)-tail) {
		return errEntry
	}
	code, rest := rest[:size], rest[size:]
	if crc32.Checksum(code, castagnoli) != binary.LittleEndian.Uint32(rest) {
		return errEntry
	}
	if rest, ok = checkSources(rest[4:], size); !ok || !bytes.Equal(rest, make([]byte, 4)) {
		return errEntry
	}
	for ; len(offsets) > 0; offsets = offsets[8:] {
		if binary.LittleEndian.Uint64(offsets) >= size {
			return errEntry
		}
	}
	return nil
}
