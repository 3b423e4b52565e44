//go:build wasip1

package sdk

//go:wasmimport berth count
func count(index, n uint32)
