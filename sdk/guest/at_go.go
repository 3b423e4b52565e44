//go:build wasip1 && !tinygo

package guest

func note(slot int32) { here = uint32(slot) }
