package serviceip_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/api/registry"
	"github.com/berth-dev/berth/host/api/serviceip"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

var (
	v4 = netip.MustParsePrefix("10.96.0.0/16")
	v6 = netip.MustParsePrefix("fd00:10:96::/112")
)

func TestFamiliesOfAService(t *testing.T) {
	t.Parallel()
	type families = []corev1.IPFamily
	four, six := corev1.IPv4Protocol, corev1.IPv6Protocol
	policy := func(p corev1.IPFamilyPolicy) func(*corev1.ServiceSpec) {
		return func(s *corev1.ServiceSpec) { s.IPFamilyPolicy = &p }
	}
	for name, c := range map[string]struct {
		ranges []netip.Prefix
		change func(*corev1.ServiceSpec)
		want   families
		policy corev1.IPFamilyPolicy
		err    string
	}{
		"one stack by default":                 {[]netip.Prefix{v4, v6}, nil, families{four}, corev1.IPFamilyPolicySingleStack, ""},
		"the first range's family":             {[]netip.Prefix{v6, v4}, nil, families{six}, corev1.IPFamilyPolicySingleStack, ""},
		"another family by name":               {[]netip.Prefix{v4, v6}, func(s *corev1.ServiceSpec) { s.IPFamilies = families{six} }, families{six}, corev1.IPFamilyPolicySingleStack, ""},
		"another family by address":            {[]netip.Prefix{v4, v6}, func(s *corev1.ServiceSpec) { s.ClusterIP = "fd00:10:96::77" }, families{six}, corev1.IPFamilyPolicySingleStack, ""},
		"both where they are wanted":           {[]netip.Prefix{v4, v6}, policy(corev1.IPFamilyPolicyPreferDualStack), families{four, six}, corev1.IPFamilyPolicyPreferDualStack, ""},
		"one where two are wanted but not had": {[]netip.Prefix{v4}, policy(corev1.IPFamilyPolicyPreferDualStack), families{four}, corev1.IPFamilyPolicyPreferDualStack, ""},
		"two where they must be":               {[]netip.Prefix{v4}, policy(corev1.IPFamilyPolicyRequireDualStack), nil, "", "this cluster is not configured for dual-stack services"},
		"a family that is not there":           {[]netip.Prefix{v4}, func(s *corev1.ServiceSpec) { s.IPFamilies = families{six} }, nil, "", "not configured on this cluster"},
		"two families of one stack": {[]netip.Prefix{v4, v6}, func(s *corev1.ServiceSpec) { s.IPFamilies = families{four, six} }, nil, "",
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified"},
		"headless without a selector": {[]netip.Prefix{v4}, func(s *corev1.ServiceSpec) { s.ClusterIP = "None" }, families{four, six}, corev1.IPFamilyPolicyRequireDualStack, ""},
		"headless": {[]netip.Prefix{v4}, func(s *corev1.ServiceSpec) { s.ClusterIP, s.Selector = "None", map[string]string{"a": "b"} },
			families{four}, corev1.IPFamilyPolicySingleStack, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, err := create(t, open(t, serviceip.Ranges{Services: c.ranges}), service("s", c.change))
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("create = %v, want %q", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if fmt.Sprint(s.Spec.IPFamilies) != fmt.Sprint(c.want) || *s.Spec.IPFamilyPolicy != c.policy {
				t.Errorf("families %v, %s; want %v, %s", s.Spec.IPFamilies, *s.Spec.IPFamilyPolicy, c.want, c.policy)
			}
			if s.Spec.ClusterIP != "None" && (len(s.Spec.ClusterIPs) != len(c.want) || s.Spec.ClusterIP != s.Spec.ClusterIPs[0]) {
				t.Errorf("addresses %q of %v", s.Spec.ClusterIPs, c.want)
			}
		})
	}
}

func TestASecondStackComesAndGoes(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{Services: []netip.Prefix{v4, v6}})
	s, err := create(t, reg, service("s", nil))
	if err != nil {
		t.Fatal(err)
	}
	first := s.Spec.ClusterIP
	update := func(p corev1.IPFamilyPolicy) *corev1.Service {
		t.Helper()
		have, err := reg.Get(t.Context(), registry.On("services", "ns", "s"))
		if err != nil {
			t.Fatal(err)
		}
		next := have.(*corev1.Service).DeepCopy()
		next.Spec.IPFamilyPolicy = ptr.To(p)
		got, _, err := reg.Update(t.Context(), registry.On("services", "ns", "s"), next)
		if err != nil {
			t.Fatal(err)
		}
		return got.(*corev1.Service)
	}
	s = update(corev1.IPFamilyPolicyRequireDualStack)
	if len(s.Spec.ClusterIPs) != 2 || s.Spec.ClusterIPs[0] != first || !v6.Contains(netip.MustParseAddr(s.Spec.ClusterIPs[1])) {
		t.Fatalf("addresses %q, want a second of %s", s.Spec.ClusterIPs, v6)
	}
	second := s.Spec.ClusterIPs[1]
	s = update(corev1.IPFamilyPolicySingleStack)
	if len(s.Spec.ClusterIPs) != 1 || s.Spec.ClusterIP != first || len(s.Spec.IPFamilies) != 1 {
		t.Fatalf("spec %+v, want the first stack alone", s.Spec)
	}
	// What it gave up is another's to have.
	if _, err := create(t, reg, service("other", func(s *corev1.ServiceSpec) { s.ClusterIP = second })); err != nil {
		t.Errorf("create with the address that was given up: %v", err)
	}
}

func TestAnAddressThatSomebodyReservedIsNotGiven(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	if _, err := reg.Create(t.Context(), registry.On("ipaddresses.networking.k8s.io", "", ""), &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: "10.96.0.99"},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "gateways", Group: "example.org", Namespace: "ns", Name: "g"}},
	}); err != nil {
		t.Fatal(err)
	}
	if s, err := create(t, reg, service("s", func(s *corev1.ServiceSpec) { s.ClusterIP = "10.96.0.99" })); err == nil || !strings.Contains(err.Error(), "already allocated") {
		t.Errorf("create = %v, %v, want the address to be taken", s, err)
	}
}

func TestADeletedServicesAddressAndPortAreFreeAtOnce(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{})
	fixed := func(s *corev1.ServiceSpec) {
		s.ClusterIP, s.Type, s.Ports[0].NodePort = "10.96.7.7", corev1.ServiceTypeNodePort, 30777
	}
	for _, name := range []string{"a", "b"} {
		if _, err := create(t, reg, service(name, fixed)); err != nil {
			t.Fatal(err)
		}
		if _, _, err := reg.Delete(t.Context(), registry.On("services", "ns", name), nil); err != nil {
			t.Fatal(err)
		}
	}
}

func TestServicesTakeAddressesOfFurtherRanges(t *testing.T) {
	t.Parallel()
	reg := open(t, serviceip.Ranges{Services: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")}})
	if _, err := reg.Create(t.Context(), registry.On("servicecidrs.networking.k8s.io", "", ""), &networkingv1.ServiceCIDR{
		ObjectMeta: metav1.ObjectMeta{Name: "more"}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{"10.0.1.0/29"}},
	}); err != nil {
		t.Fatal(err)
	}
	more := 0
	for i := range 10 { // five of each range
		s, err := create(t, reg, service(fmt.Sprintf("s%d", i), nil))
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(s.Spec.ClusterIP, "10.0.1.") {
			more++
		}
	}
	if more != 5 {
		t.Errorf("%d services have addresses of the second range, want 5", more)
	}
	if s, err := create(t, reg, service("last", nil)); err == nil {
		t.Errorf("an eleventh has %s", s.Spec.ClusterIP)
	}
}

func TestRangesThatCannotBe(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ ranges, want string }{
		{"10.96.0.1/16", "want 10.96.0.0/16"},
		{"10.96.0.0/30", "too small"},
		{"10.0.0.0/8", "larger than"},
		{"10.96.0.0/16,10.97.0.0/16", "one of each family"},
		{"10.96.0.0/16,fd00::/112", ""},
	} {
		var ranges []netip.Prefix
		for text := range strings.SplitSeq(c.ranges, ",") {
			ranges = append(ranges, netip.MustParsePrefix(text))
		}
		if err := serviceip.Check(ranges); (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("Check(%s) = %v, want %q", c.ranges, err, c.want)
		}
	}
}

// BenchmarkCreateAmongManyServices makes a service where there are 10,000.
func BenchmarkCreateAmongManyServices(b *testing.B) {
	reg := open(b, serviceip.Ranges{})
	for i := range 10_000 {
		if _, err := reg.Create(b.Context(), registry.On("services", "ns", ""), func() *corev1.Service { s := service(fmt.Sprintf("s%d", i), nil); return s }()); err != nil {
			b.Fatal(err)
		}
	}
	b.ResetTimer()
	for i := range b.N {
		if _, err := reg.Create(b.Context(), registry.On("services", "ns", ""), service(fmt.Sprintf("n%d", i), nil)); err != nil {
			b.Fatal(err)
		}
	}
}
