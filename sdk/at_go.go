//go:build wasip1 && !tinygo

package sdk

func note(slot int32) { here = uint32(slot) }
