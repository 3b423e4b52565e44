//go:build wasip1 && tinygo

package guest

import "runtime/volatile"

// note is not put off until a loop's end, as an ordinary store may be: the fuel
// may end in the midst of it.
func note(slot int32) { volatile.StoreUint32(&here, uint32(slot)) }
