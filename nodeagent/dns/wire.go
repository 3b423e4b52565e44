package dns

import (
	"encoding/binary"
	"fmt"
	"strings"

	"github.com/miekg/dns"
)

// ttl of all answers about the cluster, in seconds: the specification's.
const ttl = 5

// wireName packs a name, without compression, in lower case.
func wireName(text string) ([]byte, error) {
	buf := make([]byte, maxName+1)
	n, err := dns.PackDomainName(strings.ToLower(dns.Fqdn(text)), buf, 0, nil, false)
	if err != nil || n > maxName {
		return nil, fmt.Errorf("%q is no domain name", text)
	}
	return buf[:n:n], nil
}

// appendLabels adds labels in lower case; ok: they are labels.
func appendLabels(name []byte, labels ...string) (_ []byte, ok bool) {
	for _, l := range labels {
		if l == "" || len(l) > 63 {
			return nil, false
		}
		name = append(name, byte(len(l)))
		for i := range len(l) {
			name = append(name, lower(l[i]))
		}
	}
	return name, true
}

// record starts one whose owner lies at an offset of the message.
func record(buf []byte, owner int, rtype uint16, length int) []byte {
	buf = binary.BigEndian.AppendUint16(buf, 0xC000|uint16(owner))
	buf = binary.BigEndian.AppendUint16(buf, rtype)
	buf = binary.BigEndian.AppendUint16(buf, dns.ClassINET)
	buf = binary.BigEndian.AppendUint32(buf, ttl)
	return binary.BigEndian.AppendUint16(buf, uint16(length))
}

// fixed is what a record has before its data if its owner is a pointer.
const fixed = 12

// fit gives how many of the records that begin with pointers fit into room, and
// where they end.
func fit(records []byte, room int) (count, end int) {
	for end+fixed <= len(records) {
		next := end + fixed + int(binary.BigEndian.Uint16(records[end+10:]))
		if next > room || next > len(records) {
			break
		}
		count, end = count+1, next
	}
	return count, end
}
