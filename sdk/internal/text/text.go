// Package text has what guests do with texts where an allocation is too dear.
package text

import "unsafe"

// Places is how many places Place tells apart.
const Places = 64

// Address says where a text lies, and its length. It is a number: TinyGo notes each
// pointer that a function loads, which takes longer than all else that is done with
// it. Who keeps one keeps the text too, so that no other gets its place.
func Address(s string) uint64 {
	return uint64(uintptr(unsafe.Pointer(unsafe.StringData(s)))) | uint64(len(s))<<48
}

// HasAddress says whether a text may be told by its address: they have 48 bits.
func HasAddress(s string) bool { return s != "" && len(s) < 1<<16 }

// Place is a text's place in a table of Places: compilers put constants side by
// side. Of two that have the same place, the second must be found another way.
func Place(s string) uint32 {
	return uint32(uintptr(unsafe.Pointer(unsafe.StringData(s)))) % Places
}

// ParseInt reads a decimal integer without allocating an error.
func ParseInt(s string) (n int64, ok bool) {
	neg := false
	if s != "" && (s[0] == '-' || s[0] == '+') {
		neg, s = s[0] == '-', s[1:]
	}
	if s == "" {
		return 0, false
	}
	var u uint64
	for i := 0; i < len(s); i++ {
		d := s[i] - '0'
		if d > 9 || u > (1<<63)/10 {
			return 0, false
		}
		if u = u*10 + uint64(d); u > 1<<63 {
			return 0, false
		}
	}
	if neg {
		return -int64(u), true
	}
	return int64(u), u < 1<<63
}
