//go:build wasip1

package guest

import (
	"errors"
	"runtime"
	"unsafe"

	"github.com/berth-dev/berth/abi"
)

// The one instance of this sandbox, its input buffer, and the text of the last
// failure. All three stay reachable here while the host holds their addresses.
var (
	instance *Instance
	input    []byte
	answer   []byte
	failure  []byte
)

func ok(err error) uint32 {
	if err == nil {
		return abi.StatusOK
	}
	failure = []byte(err.Error())
	return abi.StatusFailed
}

// span is an answer's place: pointer in the upper half, length in the lower. An
// empty answer has a pointer too; 0 stands for failure.
func span(b []byte) uint64 {
	if len(b) == 0 {
		b = one[:]
		return uint64(uintptr(unsafe.Pointer(&b[0]))) << 32
	}
	answer = b
	return uint64(uintptr(unsafe.Pointer(&b[0])))<<32 | uint64(len(b))
}

var errClosed = errors.New("no policy is open")

var one [1]byte

func result(b []byte, err error) uint64 {
	if err != nil {
		ok(err)
		return 0
	}
	return span(b)
}

func given(size uint32) []byte {
	if uint64(size) > uint64(len(input)) {
		return nil
	}
	return input[:size:size]
}

//go:wasmexport berth_abi_v1
func exportMarker() {}

//go:wasmexport berth_manifest
func exportManifest() uint64 { return span(Manifest()) }

//go:wasmexport berth_input
func exportInput(size uint32) uint32 {
	if size > abi.MaxInput {
		return 0
	}
	if uint64(size) > uint64(len(input)) {
		input = nil // a collection on the way may have it
		input = make([]byte, max(int(size)+int(size)/4, 4<<10))
	}
	return uint32(uintptr(unsafe.Pointer(&input[0])))
}

//go:wasmexport berth_open
func exportOpen(size uint32) uint32 {
	in, err := Open(given(size))
	if err == nil {
		instance = in
	}
	return ok(err)
}

//go:wasmexport berth_apply
func exportApply(size uint32) uint32 {
	if instance == nil {
		return ok(errClosed)
	}
	return ok(instance.Apply(given(size)))
}

//go:wasmexport berth_pod
func exportPod(size uint32) uint64 {
	if instance == nil {
		ok(errClosed)
		return uint64(abi.AskError)
	}
	a, err := instance.Pod(given(size))
	if err != nil {
		ok(err)
		return uint64(abi.AskError)
	}
	return a.Packed()
}

//go:wasmexport berth_filter
func exportFilter(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.Filter(given(size)))
}

//go:wasmexport berth_score
func exportScore(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.Score(given(size)))
}

//go:wasmexport berth_whatif
func exportWhatIf(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.WhatIf(given(size)))
}

//go:wasmexport berth_reasons
func exportReasons(from uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return span(instance.Reasons(from))
}

//go:wasmexport berth_explain
func exportExplain(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	b := given(size)
	switch len(b) {
	case 0:
		return result(instance.Refusal())
	case 4:
	default:
		return result(nil, errShort)
	}
	return result(instance.Explain(uint32(b[0]) | uint32(b[1])<<8 | uint32(b[2])<<16 | uint32(b[3])<<24))
}

//go:wasmexport berth_depends
func exportDepends() uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.Depends())
}

//go:wasmexport berth_gate
func exportGate(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.Gate(given(size)))
}

//go:wasmexport berth_reconcile
func exportReconcile(size uint32) uint64 {
	if instance == nil {
		return result(nil, errClosed)
	}
	return result(instance.Reconcile(given(size)))
}

//go:wasmexport berth_idle
func exportIdle() uint32 {
	if instance == nil {
		return abi.StatusOK
	}
	status := instance.Idle()
	runtime.GC()
	return status
}

//go:wasmexport berth_error
func exportError() uint64 { return span(failure) }
