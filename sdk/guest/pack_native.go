//go:build !wasm

package guest

import "encoding/binary"

func (in *Instance) unpackSlots(b []byte) []int32 {
	in.slots = reuse(in.slots, len(b)/4)
	for i := range in.slots {
		in.slots[i] = int32(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return in.slots
}

func (in *Instance) packScores() []byte {
	in.out = reuse(in.out, 8*len(in.scores))
	for i, s := range in.scores {
		binary.LittleEndian.PutUint64(in.out[8*i:], uint64(s))
	}
	return in.out
}
