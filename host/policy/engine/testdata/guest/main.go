// Command guest is a policy without the SDK, for the engine's own tests.
package main

import "unsafe"

var buf []byte

//go:wasmexport berth_abi_v1
func marker() {}

//go:wasmexport berth_input
func input(n uint32) uint32 {
	if uint32(cap(buf)) < n {
		buf = make([]byte, n)
	}
	buf = buf[:n]
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(buf))))
}
func ans(b []byte) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.SliceData(b))))<<32 | uint64(len(b))
}

var m = []byte(`{"name":"x"}`)

//go:wasmexport berth_manifest
func manifest() uint64 { return ans(m) }

//go:wasmexport berth_open
func open(n uint32) uint32 { return 0 }

//go:wasmexport berth_idle
func idle() uint32 { return 0 }

//go:wasmexport berth_error
func berr() uint64 { return 0 }

//go:wasmimport berth log
func log(level uint32, p unsafe.Pointer, n uint32)

//go:wasmexport berth_filter
func filter(n uint32) uint64 {
	s := "hello"
	log(1, unsafe.Pointer(unsafe.StringData(s)), uint32(len(s)))
	for i := range buf {
		buf[i] ^= 1
	}
	return ans(buf)
}
func main() {}
