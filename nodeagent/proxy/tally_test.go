package proxy

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// fronted is a change by which a service has a front.
func fronted(front forward.Front) forward.Change {
	c := forward.NewChange()
	c.Fronts[front] = &forward.Entry{}
	return c
}

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "default", Name: name}
}

func TestConnectionsAreAddedUpByServices(t *testing.T) {
	t.Parallel()
	one := forward.Front{Addr: netip.MustParseAddr("10.96.0.1"), Port: 80, Protocol: forward.TCP}
	port := forward.Front{Addr: netip.IPv4Unspecified(), Port: 30000, Protocol: forward.TCP}
	other := forward.Front{Addr: netip.MustParseAddr("10.96.0.2"), Port: 80, Protocol: forward.TCP}
	belong := func(to string) func(forward.Front) types.NamespacedName {
		return func(forward.Front) types.NamespacedName { return named(to) }
	}
	y := newTally()
	y.own(fronted(one), true, belong("web"))
	y.own(fronted(port), false, belong("web"))
	y.own(fronted(other), false, belong("api"))
	for _, step := range []struct {
		name    string
		do      func()
		counted map[forward.Front]uint64
		want    map[types.NamespacedName]uint64
	}{
		{"nobody came", func() {}, map[forward.Front]uint64{one: 0}, map[types.NamespacedName]uint64{}},
		{"by two ways", func() {}, map[forward.Front]uint64{one: 3, port: 4, other: 1}, map[types.NamespacedName]uint64{named("web"): 7, named("api"): 1}},
		{"more", func() {}, map[forward.Front]uint64{one: 5, port: 4, other: 1}, map[types.NamespacedName]uint64{named("web"): 9, named("api"): 1}},
		{"the kernel begins anew", func() {}, map[forward.Front]uint64{one: 2, port: 0, other: 2}, map[types.NamespacedName]uint64{named("web"): 11, named("api"): 2}},
		{"a front is another's", func() { y.own(fronted(port), false, belong("api")) }, map[forward.Front]uint64{one: 2, port: 1, other: 2}, map[types.NamespacedName]uint64{named("web"): 11, named("api"): 3}},
		{"a service goes", func() {
			gone := forward.NewChange()
			gone.Fronts[one] = nil
			y.own(gone, false, belong(""))
		}, map[forward.Front]uint64{port: 1, other: 2}, map[types.NamespacedName]uint64{named("api"): 3}},
		{"all is worked out anew", func() { y.own(fronted(one), true, belong("new")) }, map[forward.Front]uint64{one: 6, port: 9}, map[types.NamespacedName]uint64{named("new"): 6}},
	} {
		step.do()
		if diff := cmp.Diff(step.want, y.add(step.counted)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", step.name, diff)
		}
	}
}

func TestNotMoreThanAThousandServicesAreToldOf(t *testing.T) {
	t.Parallel()
	y := newTally()
	counted := map[forward.Front]uint64{}
	for i := range 3 * mostTold {
		front := forward.Front{Addr: netip.AddrFrom4([4]byte{10, 96, byte(i >> 8), byte(i)}), Port: 80, Protocol: forward.TCP}
		y.own(fronted(front), false, func(forward.Front) types.NamespacedName { return named(fmt.Sprint("s", i)) })
		counted[front] = 2
	}
	got := y.add(counted)
	if len(got) != mostTold+1 || got[types.NamespacedName{}] != 4*mostTold {
		t.Errorf("%d series, of which that without a name has %d; want %d and %d", len(got), got[types.NamespacedName{}], mostTold+1, 4*mostTold)
	}
	before := got[types.NamespacedName{}]
	for front := range counted {
		counted[front]++
	}
	if got := y.add(counted); len(got) != mostTold+1 || got[types.NamespacedName{}] != before+2*mostTold {
		t.Errorf("then %d series, that without a name has %d, want %d", len(got), got[types.NamespacedName{}], before+2*mostTold)
	}
}
