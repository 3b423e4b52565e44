package netnstest

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Kinds of SCTP's chunks (RFC 9260, section 3.2) by which an association begins.
const (
	Init    = 1
	InitAck = 2
)

// Chunk is an SCTP packet with the one chunk that asks for an association, or that
// answers. Kernels without SCTP forward and track them all the same: they are sent
// and received by raw sockets of protocol 132.
type Chunk struct {
	Kind     byte
	From, To uint16 // ports
	Tag      uint32 // the other side's, 0 in an INIT
	Own      uint32 // what the sender wants to be tagged by
}

const chunkLen = 12 + 20

// Packet is the chunk on the wire, behind the IP header.
func (c Chunk) Packet() []byte {
	b := make([]byte, chunkLen)
	binary.BigEndian.PutUint16(b, c.From)
	binary.BigEndian.PutUint16(b[2:], c.To)
	binary.BigEndian.PutUint32(b[4:], c.Tag)
	b[12] = c.Kind
	binary.BigEndian.PutUint16(b[14:], chunkLen-12)
	binary.BigEndian.PutUint32(b[16:], c.Own)
	binary.BigEndian.PutUint32(b[20:], 64<<10) // window
	binary.BigEndian.PutUint16(b[24:], 1)      // streams out
	binary.BigEndian.PutUint16(b[26:], 1)      // and in
	binary.LittleEndian.PutUint32(b[8:], checksum(b))
	return b
}

// ParseChunk reads a packet, whose checksum must be right.
func ParseChunk(b []byte) (Chunk, error) {
	if len(b) != chunkLen {
		return Chunk{}, fmt.Errorf("%d bytes, want %d", len(b), chunkLen)
	}
	sum := binary.LittleEndian.Uint32(b[8:])
	bare := append([]byte(nil), b...)
	clear(bare[8:12])
	if sum != checksum(bare) {
		return Chunk{}, errors.New("the checksum is wrong")
	}
	return Chunk{
		Kind: b[12], From: binary.BigEndian.Uint16(b), To: binary.BigEndian.Uint16(b[2:]),
		Tag: binary.BigEndian.Uint32(b[4:]), Own: binary.BigEndian.Uint32(b[16:]),
	}, nil
}

func checksum(b []byte) uint32 { return crc32.Checksum(b, crc32.MakeTable(crc32.Castagnoli)) }
