package nft

import (
	"encoding/binary"
	"net/netip"

	"github.com/google/nftables"
	"github.com/google/nftables/binaryutil"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// family is what IPv4 and IPv6 differ in.
type family struct {
	table          nftables.TableFamily
	number         uint32 // of the protocol family
	length         uint32 // of an address
	source, target uint32 // where the packet has them
	address        nftables.SetDatatype
	multicast      netip.Prefix
	redirect       [2]byte // protocol and type of an ICMP redirect
}

var families = []*family{
	{nftables.TableFamilyIPv4, unix.NFPROTO_IPV4, 4, 12, 16, nftables.TypeIPAddr, netip.MustParsePrefix("224.0.0.0/4"), [2]byte{unix.IPPROTO_ICMP, 5}},
	{nftables.TableFamilyIPv6, unix.NFPROTO_IPV6, 16, 8, 24, nftables.TypeIP6Addr, netip.MustParsePrefix("ff00::/8"), [2]byte{unix.IPPROTO_ICMPV6, 137}},
}

func (f *family) is4() bool { return f.length == 4 }

func (f *family) has(a netip.Addr) bool { return a.IsValid() && a.Is4() == f.is4() }

// masqueradeMark is the bit of a packet's mark that kube-proxy has for the same.
const masqueradeMark = 0x4000

// A part is something of a packet that a key is made of.
type part struct {
	bytes uint32
	load  func(register uint32) expr.Any
}

func (f *family) daddr() part { return payload(expr.PayloadBaseNetworkHeader, f.target, f.length) }
func (f *family) saddr() part { return payload(expr.PayloadBaseNetworkHeader, f.source, f.length) }

func payload(base expr.PayloadBase, offset, length uint32) part {
	return part{length, func(r uint32) expr.Any {
		return &expr.Payload{DestRegister: r, Base: base, Offset: offset, Len: length}
	}}
}

var (
	protocol = part{4, func(r uint32) expr.Any { return &expr.Meta{Key: expr.MetaKeyL4PROTO, Register: r} }}
	dport    = payload(expr.PayloadBaseTransportHeader, 2, 2)
)

// random is a number below k.
func random(k int) part {
	return part{4, func(r uint32) expr.Any {
		return &expr.Numgen{Register: r, Modulus: uint32(k), Type: unix.NFT_NG_RANDOM}
	}}
}

// register names the one at an offset in bytes, as nft does: those of 16 bytes
// have numbers of their own.
func register(offset uint32) uint32 {
	if offset%16 == 0 {
		return 1 + offset/16
	}
	return unix.NFT_REG32_00 + offset/4
}

// rule is a rule being written.
type rule []expr.Any

// key loads parts one after the other, from the first register on.
func (r rule) key(parts ...part) rule {
	offset := uint32(0)
	for _, p := range parts {
		r = append(r, p.load(register(offset)))
		offset += (p.bytes + 3) / 4 * 4
	}
	return r
}

func (r rule) in(set string) rule { return append(r, &expr.Lookup{SourceRegister: 1, SetName: set}) }
func (r rule) notIn(set string) rule {
	return append(r, &expr.Lookup{SourceRegister: 1, SetName: set, Invert: true})
}

// vmap ends by the verdict of the key.
func (r rule) vmap(set string) rule {
	return append(r, &expr.Lookup{SourceRegister: 1, SetName: set, DestRegister: 0, IsDestRegSet: true})
}

func (r rule) verdict(kind expr.VerdictKind, chain string) rule {
	return append(r, &expr.Verdict{Kind: kind, Chain: chain})
}

func (r rule) cmp(op expr.CmpOp, data ...byte) rule {
	return append(r, &expr.Cmp{Op: op, Register: 1, Data: data})
}

func (r rule) masked(mask, xor []byte) rule {
	return append(r, &expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: uint32(len(mask)), Mask: mask, Xor: xor})
}

// dnat sends to the address and port that the key has in a map.
func (r rule) dnat(f *family, set string) rule {
	return append(r,
		&expr.Lookup{SourceRegister: 1, SetName: set, DestRegister: 1, IsDestRegSet: true},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: f.number, RegAddrMin: 1, RegProtoMin: register(f.length)})
}

// dnatTo sends to one address.
func (r rule) dnatTo(f *family, to netip.AddrPort) rule {
	return append(r,
		&expr.Immediate{Register: 1, Data: to.Addr().AsSlice()},
		&expr.Immediate{Register: 2, Data: binary.BigEndian.AppendUint16(nil, to.Port())},
		&expr.NAT{Type: expr.NATTypeDestNAT, Family: f.number, RegAddrMin: 1, RegProtoMin: 2, Specified: true})
}

// within: an address, which is loaded, is in a range, or is not.
func (r rule) within(op expr.CmpOp, p netip.Prefix) rule {
	mask := make([]byte, p.Addr().BitLen()/8)
	for i := range p.Bits() {
		mask[i/8] |= 0x80 >> (i % 8)
	}
	return r.masked(mask, make([]byte, len(mask))).cmp(op, p.Masked().Addr().AsSlice()...)
}

// mark sets the bit for masquerading.
func (r rule) mark() rule {
	return append(r, &expr.Meta{Key: expr.MetaKeyMARK, Register: 1},
		&expr.Bitwise{SourceRegister: 1, DestRegister: 1, Len: 4, Mask: native(^uint32(masqueradeMark)), Xor: native(masqueradeMark)},
		&expr.Meta{Key: expr.MetaKeyMARK, Register: 1, SourceRegister: true})
}

func (r rule) masquerade() rule { return append(r, &expr.Masq{FullyRandom: true}) }

// local: the kernel's routes say that an address is of this machine, or not.
func (r rule) local(op expr.CmpOp, source bool) rule {
	return append(r, &expr.Fib{Register: 1, ResultADDRTYPE: true, FlagSADDR: source, FlagDADDR: !source}).cmp(op, native(unix.RTN_LOCAL)...)
}

// device: the packet comes in or goes out by one.
func (r rule) device(key expr.MetaKey, name string) rule {
	return append(r, &expr.Meta{Key: key, Register: 1}).cmp(expr.CmpOpEq, padded(name)...)
}

// padded is an interface's name as the kernel compares it.
func padded(name string) []byte {
	out := make([]byte, 16)
	copy(out, name)
	return out
}

func native(n uint32) []byte { return binaryutil.NativeEndian.PutUint32(n) }
