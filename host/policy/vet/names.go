package vet

import (
	"bytes"
	"slices"
	"unicode"
	"unicode/utf8"
)

const (
	maxNames     = 65536
	maxNameBytes = 256
)

// custom takes the functions' names out of a name section, for stack traces;
// every other custom section is
// dropped, though that there is debug information is remembered. A bad one is no reason to refuse.
func (m *module) custom(r *reader) {
	name := r.name()
	if name == debugSection && r.err == nil && r.more() {
		m.debug = true
	}
	if name != "name" || r.err != nil || m.names != nil {
		return
	}
	for r.more() {
		id := r.byte()
		body := r.sub(int(r.u32()))
		if r.err == nil && id == 1 {
			m.names = functionNames(body)
		}
	}
}

func functionNames(r *reader) map[uint32]string {
	n := r.u32()
	names := map[uint32]string{}
	for range min(n, maxNames) {
		i, name := r.u32(), r.bytes(int(r.u32()))
		if r.err != nil {
			return names
		}
		if len(name) <= maxNameBytes && printable(name) {
			names[i] = string(name)
		}
	}
	return names
}

// printable keeps names out that would steer a terminal, or begin a line of
// their own, when a stack is shown.
func printable(name []byte) bool {
	return utf8.Valid(name) && bytes.IndexFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) < 0
}

// nameSection writes the functions' names in the order of their indices.
func (m *module) nameSection() []byte {
	indices := make([]uint32, 0, len(m.names))
	for i := range m.names {
		if int64(i) < int64(len(m.functions)) {
			indices = append(indices, i)
		}
	}
	slices.Sort(indices)
	body := appendU32(nil, uint32(len(indices)))
	for _, i := range indices {
		body = appendName(appendU32(body, m.moved(i)), m.names[i])
	}
	return append(appendName(nil, "name"), appendSection(nil, 1, body)...)
}
