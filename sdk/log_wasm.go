//go:build wasip1

package sdk

import "unsafe"

//go:wasmimport berth log
func hostLog(level uint32, text unsafe.Pointer, size uint32)

func writeLog(level Level, text string) {
	if text != "" {
		hostLog(uint32(level), unsafe.Pointer(unsafe.StringData(text)), uint32(len(text)))
	}
}
