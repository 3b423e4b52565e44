package nft

import (
	"encoding/binary"
	"net/netip"
	"slices"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// place is where an element lies.
type place struct{ set, key string }

// elements are those of a front, and the chains that they go to.
type elements struct {
	entry  *forward.Entry
	values map[place]string
	chains []made
	// backends of UDP fronts whose flows are theirs.
	backends []netip.AddrPort
}

// Values of verdict maps: a letter and a chain's name.
const (
	valueDrop = "d"
	valueGoto = "g"
	valueJump = "j"
)

// of gives a front's elements.
func (f *family) of(table *nftables.Table, front forward.Front, e *forward.Entry) elements {
	out := elements{entry: e, values: map[place]string{}}
	if e == nil {
		return out
	}
	key := frontKey(front)
	if front.Protocol == forward.UDP {
		out.backends = slices.Concat(e.Inside.Backends, e.Serving)
		if e.Outside != nil {
			out.backends = append(out.backends, e.Outside.Backends...)
		}
	}
	services, backends, outside, outsideBackends := mapServices, mapBackends, mapOutside, mapOutsideBackends
	counted := setCounted
	if front.Addr.IsUnspecified() {
		counted = setCountedPorts
		services, backends, outside, outsideBackends = mapPorts, mapPortBackends, mapOutsidePorts, mapOutsidePortBack
	}
	out.values[place{counted, key}] = ""
	f.point(table, &out, front, &e.Inside, place{services, key}, backends)
	if e.Outside != nil {
		if front.Addr.IsUnspecified() {
			out.values[place{setCountedOutsidePorts, key}] = ""
		}
		f.point(table, &out, front, e.Outside, place{outside, key}, outsideBackends)
	}
	if len(e.Sources) > 0 && !front.Addr.IsUnspecified() {
		only := f.only(e.Sources)
		out.chains = append(out.chains, only)
		out.values[place{mapGuarded, key}] = valueJump + only.name
	}
	return out
}

func (f *family) point(table *nftables.Table, out *elements, front forward.Front, t *forward.Target, at place, backends string) {
	switch {
	case t.Verdict == forward.Drop:
		out.values[at] = valueDrop
	case t.Verdict == forward.Reject || len(t.Backends) == 0:
		out.values[at] = valueGoto + chainReject
	case t.Affinity > 0:
		c := f.stick(table, t, front.Protocol)
		out.chains = append(out.chains, c)
		out.values[at] = valueGoto + c.name
	default:
		c := f.choose(t, front.Addr.IsUnspecified())
		out.chains = append(out.chains, c)
		out.values[at] = valueGoto + c.name
		for i, b := range t.Backends {
			out.values[place{backends, at.key + string(native(uint32(i)))}] = backendValue(b)
		}
	}
}

// frontKey is a front as maps have it: each part filled up to four bytes.
func frontKey(f forward.Front) string {
	var key []byte
	if !f.Addr.IsUnspecified() {
		key = f.Addr.AsSlice()
	}
	key = append(key, byte(f.Protocol), 0, 0, 0)
	return string(append(binary.BigEndian.AppendUint16(key, f.Port), 0, 0))
}

// frontOf is the front that has a key.
func (f *family) frontOf(key string) (front forward.Front, ok bool) {
	front.Addr = netip.IPv6Unspecified()
	if f.is4() {
		front.Addr = netip.IPv4Unspecified()
	}
	if len(key) > 8 {
		if front.Addr, ok = netip.AddrFromSlice([]byte(key[:len(key)-8])); !ok {
			return front, false
		}
		key = key[len(key)-8:]
	}
	if len(key) != 8 {
		return front, false
	}
	front.Protocol, front.Port = forward.Protocol(key[0]), binary.BigEndian.Uint16([]byte(key[4:]))
	return front, true
}

func backendValue(b netip.AddrPort) string {
	return string(append(binary.BigEndian.AppendUint16(b.Addr().AsSlice(), b.Port()), 0, 0))
}

// element is how the library has it.
func element(key, value string, verdicts bool) nftables.SetElement {
	out := nftables.SetElement{Key: []byte(key)}
	switch {
	case !verdicts:
		out.Val = []byte(value)
	case value == valueDrop:
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictDrop}
	case value[:1] == valueJump:
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictJump, Chain: value[1:]}
	default:
		out.VerdictData = &expr.Verdict{Kind: expr.VerdictGoto, Chain: value[1:]}
	}
	return out
}
