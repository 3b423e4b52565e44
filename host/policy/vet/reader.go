package vet

import (
	"math"
	"unicode/utf8"
)

// reader takes a module apart. It never reads past its bytes: the first error
// sticks, and from then on every read gives zero.
type reader struct {
	b    []byte
	pos  int
	base int // offset of b in the module, for messages
	err  *Refusal
}

func (r *reader) fail(what string) {
	if r.err != nil {
		return
	}
	r.err = refuse(RuleFormat, adviceRebuild, "%s", what)
	r.err.Offset = r.base + r.pos
}

func (r *reader) left() int { return len(r.b) - r.pos }

func (r *reader) more() bool { return r.err == nil && r.pos < len(r.b) }

func (r *reader) byte() byte {
	if r.err != nil {
		return 0
	}
	if r.pos >= len(r.b) {
		r.fail("it ends in the middle of a record")
		return 0
	}
	c := r.b[r.pos]
	r.pos++
	return c
}

func (r *reader) bytes(n int) []byte {
	if r.err != nil {
		return nil
	}
	if n < 0 || n > r.left() {
		r.fail("a length runs past the end")
		return nil
	}
	b := r.b[r.pos : r.pos+n]
	r.pos += n
	return b
}

func (r *reader) u32() uint32 {
	if r.err == nil && r.pos < len(r.b) && r.b[r.pos] < 0x80 { // as most are
		r.pos++
		return uint32(r.b[r.pos-1])
	}
	return uint32(r.unsigned(32))
}

func (r *reader) unsigned(bits uint) uint64 {
	var v uint64
	for shift := uint(0); shift < bits; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		v |= uint64(c&0x7f) << shift
		if c&0x80 != 0 {
			continue
		}
		if left := bits - shift; left < 7 && c>>left != 0 {
			break
		}
		return v
	}
	r.fail("a number is too large for its type")
	return 0
}

// signed reads a signed LEB128 of at most so many bits.
func (r *reader) signed(bits uint) int64 {
	var v int64
	for shift := uint(0); shift < bits; shift += 7 {
		c := r.byte()
		if r.err != nil {
			return 0
		}
		v |= int64(c&0x7f) << shift
		if c&0x80 != 0 {
			continue
		}
		if shift+7 < 64 && c&0x40 != 0 {
			v |= -1 << (shift + 7)
		}
		if !fits(c, bits-shift) {
			break
		}
		return v
	}
	r.fail("a number is too large for its type")
	return 0
}

// fits says whether a signed number's last byte, of which so many bits are
// meant, repeats its sign in the others.
func fits(c byte, bits uint) bool {
	if bits >= 7 {
		return true
	}
	top := int8(c<<1) >> bits // sign-extended from the 7 bits
	return top == 0 || top == -1
}

func (r *reader) name() string {
	b := r.bytes(int(r.u32()))
	if r.err == nil && !utf8.Valid(b) {
		r.fail("a name is not UTF-8")
	}
	return string(b)
}

// count reads how many records follow; each takes a byte at least.
func (r *reader) count(what string, limit int, advice string) int {
	n := r.u32()
	if r.err != nil {
		return 0
	}
	if int64(n) > int64(limit) {
		r.err = tooMany(what, uint64(n), limit, advice)
		return 0
	}
	if int64(n) > int64(r.left()) {
		r.fail("it announces more " + what + " than it holds")
		return 0
	}
	return int(n)
}

func (r *reader) sub(n int) *reader {
	base := r.base + r.pos
	b := r.bytes(n)
	return &reader{b: b, base: base, err: r.err}
}

func appendU32(b []byte, v uint32) []byte {
	for v >= 0x80 {
		b = append(b, byte(v)|0x80)
		v >>= 7
	}
	return append(b, byte(v))
}

func appendS64(b []byte, v int64) []byte {
	for {
		c := byte(v & 0x7f)
		v >>= 7
		if (v == 0 && c&0x40 == 0) || (v == -1 && c&0x40 != 0) {
			return append(b, c)
		}
		b = append(b, c|0x80)
	}
}

func appendName(b []byte, s string) []byte {
	return append(appendU32(b, uint32(len(s))), s...)
}

func appendSection(out []byte, id byte, body []byte) []byte {
	if len(body) > math.MaxUint32 {
		return out
	}
	return append(appendU32(append(out, id), uint32(len(body))), body...)
}
