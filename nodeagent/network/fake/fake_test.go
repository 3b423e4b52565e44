package fake_test

import (
	"net/netip"
	"testing"

	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/network/fake"
	"github.com/berth-dev/berth/nodeagent/network/networktest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	networktest.Run(t, func(*testing.T) network.Network { return fake.New(netip.MustParsePrefix("10.88.0.0/24")) })
}
