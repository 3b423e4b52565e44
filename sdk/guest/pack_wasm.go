package guest

import "unsafe"

// WebAssembly's memory is little-endian, as the ABI's lists are: they are used
// where they lie. The input, which the SDK allocates, is aligned.

func (in *Instance) unpackSlots(b []byte) []int32 {
	if len(b) == 0 {
		return nil
	}
	return unsafe.Slice((*int32)(unsafe.Pointer(&b[0])), len(b)/4)
}

func (in *Instance) packScores() []byte {
	if len(in.scores) == 0 {
		return nil
	}
	return unsafe.Slice((*byte)(unsafe.Pointer(&in.scores[0])), 8*len(in.scores))
}
