package cni

import (
	"testing"

	"github.com/containernetworking/cni/pkg/types/create"
)

// FuzzResult reads anything as what the plugins answered, or as what libcni kept
// of it.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"cniVersion":"1.0.0","ips":[{"address":"10.1.2.3/24"},{"address":"fd00::1/64"}]}`))
	f.Add([]byte(`{"cniVersion":"0.2.0","ip4":{"ip":"10.1.2.3/24"}}`))
	f.Add([]byte(`{"cniVersion":"1.0.0","ips":[null]}`))
	f.Add([]byte(`{"cniVersion":"0.4.0","ips":[null]}`)) // where libcni panics
	f.Add([]byte(`{"cniVersion":"1.0.0","interfaces":[{"name":"berth0"},{"name":"veth1"},{"name":"eth0","mac":"02:00:00:00:00:01","sandbox":"x"}],"ips":[{"address":"10.1.2.3/24"}]}`))
	f.Add([]byte(`{"cniVersion":"1.0.0","interfaces":[null],"ips":[{"address":"10.1.2.3/24"}]}`))
	f.Fuzz(func(t *testing.T, answer []byte) {
		result, err := create.CreateFromBytes(answer)
		if err != nil {
			return
		}
		if s, err := sender(result); err == nil && (len(s.MAC) != 6 || s.Port == "" || len(s.Port) > 15 || len(s.IPs) == 0) {
			t.Errorf("%q gives the sender %v", answer, s)
		}
		a, err := attachment("/run/netns/x", result)
		if err != nil {
			return
		}
		for _, ip := range a.IPs {
			if !ip.IsValid() || ip.Is4In6() {
				t.Errorf("%q gives the address %v", answer, ip)
			}
		}
	})
}
