package row

import (
	"unsafe"

	"github.com/berth-dev/berth/sdk/facts"
)

// Columns are amounts by slot.
type Columns struct {
	MilliCPU, Memory, EphemeralStorage, Pods []int64
}

// grow lengthens the columns to n, with room for size. They share one piece of
// memory: a collector that makes room for large pieces runs once for each.
func (c *Columns) grow(n, size int) {
	if n > cap(c.Pods) {
		slab := make([]int64, 4*size)
		for i, col := range [...]*[]int64{&c.MilliCPU, &c.Memory, &c.EphemeralStorage, &c.Pods} {
			part := slab[i*size : i*size+n : (i+1)*size]
			copy(part, *col)
			*col = part
		}
		return
	}
	c.MilliCPU, c.Memory = c.MilliCPU[:n], c.Memory[:n]
	c.EphemeralStorage, c.Pods = c.EphemeralStorage[:n], c.Pods[:n]
}

func (c *Columns) set(slot int32, a facts.Amounts) {
	c.MilliCPU[slot], c.Memory[slot] = a.MilliCPU, a.Memory
	c.EphemeralStorage[slot], c.Pods[slot] = a.EphemeralStorage, a.Pods
}

// At is what the columns hold at a slot.
func (c *Columns) At(slot int32) facts.Amounts {
	return facts.Amounts{MilliCPU: c.MilliCPU[slot], Memory: c.Memory[slot], EphemeralStorage: c.EphemeralStorage[slot], Pods: c.Pods[slot]}
}

// column is one of the columns. They lie side by side, as the kinds do.
func (c *Columns) column(i int) []int64 {
	return (*[4][]int64)(unsafe.Pointer(c))[i&3]
}
