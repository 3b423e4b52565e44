//go:build wasip1

package guest

//go:wasmimport berth count
func count(index, n uint32)
