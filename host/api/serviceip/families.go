package serviceip

import (
	"fmt"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"
)

// families says of which families the service has addresses, from what it asks
// for, what it had, and what the cluster has ranges of.
func (g *grant) families() {
	spec := &g.service.Spec
	if spec.Type == corev1.ServiceTypeExternalName {
		return
	}
	headless := spec.ClusterIP == corev1.ClusterIPNone
	alone := headless && len(spec.Selector) == 0
	g.policy(alone)
	if g.old != nil && g.old.Spec.Type != corev1.ServiceTypeExternalName {
		g.change()
	}
	if len(g.errs) > 0 {
		return
	}
	g.infer()
	g.refuseSecond()
	if len(g.errs) > 0 {
		return
	}
	if alone { // nobody but its user knows where its endpoints are
		g.fill(true)
		return
	}
	g.fillServed()
}

// refuseSecond refuses a second family where the policy is a single stack.
func (g *grant) refuseSecond() {
	spec := &g.service.Spec
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack {
		return
	}
	path := field.NewPath("spec", "ipFamilyPolicy")
	const must = "must be 'RequireDualStack' or 'PreferDualStack' when multiple %s are specified"
	if len(spec.ClusterIPs) == 2 {
		g.refuse(field.Invalid(path, spec.IPFamilyPolicy, fmt.Sprintf(must, "cluster IPs")))
	}
	if len(spec.IPFamilies) == 2 {
		g.refuse(field.Invalid(path, spec.IPFamilyPolicy, fmt.Sprintf(must, "IP families")))
	}
}

// fillServed completes the families from those that the cluster has ranges of.
func (g *grant) fillServed() {
	spec := &g.service.Spec
	both := g.served(corev1.IPv4Protocol) && g.served(corev1.IPv6Protocol)
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicyRequireDualStack && !both {
		g.refuse(field.Invalid(field.NewPath("spec", "ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, f := range spec.IPFamilies {
		if !g.served(f) {
			g.refuse(field.Invalid(field.NewPath("spec", "ipFamilies").Index(i), f, "not configured on this cluster"))
		}
	}
	if len(g.errs) == 0 {
		g.fill(both)
	}
}

// policy is by default a single stack, and as it was.
func (g *grant) policy(alone bool) {
	spec := &g.service.Spec
	switch {
	case spec.IPFamilyPolicy != nil:
	case g.old != nil && g.old.Spec.IPFamilyPolicy != nil:
		spec.IPFamilyPolicy = ptr.To(*g.old.Spec.IPFamilyPolicy)
	case alone:
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicyRequireDualStack)
	default:
		spec.IPFamilyPolicy = ptr.To(corev1.IPFamilyPolicySingleStack)
	}
}

// change settles what an update makes of the families that the service had.
func (g *grant) change() {
	spec, old := &g.service.Spec, &g.old.Spec
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = slices.Clone(old.IPFamilies)
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack {
		// Who asks for one stack and leaves the rest as it was gives up the second.
		if slices.Equal(spec.ClusterIPs, old.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1:1]
		}
		if slices.Equal(spec.IPFamilies, old.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1:1]
		}
		return
	}
	path := field.NewPath("spec", "ipFamilyPolicy")
	const must = "must be 'SingleStack' to release the secondary %s"
	if len(spec.ClusterIPs) > 0 && len(spec.ClusterIPs) < len(old.ClusterIPs) {
		g.refuse(field.Invalid(path, spec.IPFamilyPolicy, fmt.Sprintf(must, "cluster IP")))
	}
	if len(spec.IPFamilies) < len(old.IPFamilies) {
		g.refuse(field.Invalid(path, spec.IPFamilyPolicy, fmt.Sprintf(must, "IP family")))
	}
}

// infer reads families from the addresses that the service asks for.
func (g *grant) infer() {
	spec := &g.service.Spec
	given := spec.ClusterIPs
	if len(given) == 0 && spec.ClusterIP != "" {
		given = []string{spec.ClusterIP}
	}
	for i, text := range given {
		ip, err := netip.ParseAddr(text)
		if err != nil || i < len(spec.IPFamilies) {
			continue // validation tells what does not fit
		}
		if f := family(ip); g.served(f) {
			spec.IPFamilies = append(slices.Clip(spec.IPFamilies), f)
		} else {
			g.refuse(field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), given, fmt.Sprintf("%s is not configured on this cluster", f)))
		}
	}
}

// fill adds the families that the service leaves to the cluster.
func (g *grant) fill(both bool) {
	spec := &g.service.Spec
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{family(g.ranges.Services[0].Addr())}
	}
	if *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack || len(spec.IPFamilies) > 1 || !both {
		return
	}
	// One that preferred two stacks before the cluster had them stays as it is.
	if g.old != nil && *spec.IPFamilyPolicy == corev1.IPFamilyPolicyPreferDualStack &&
		ptr.Deref(g.old.Spec.IPFamilyPolicy, "") == corev1.IPFamilyPolicyPreferDualStack && slices.Equal(spec.IPFamilies, g.old.Spec.IPFamilies) {
		return
	}
	other := corev1.IPv6Protocol
	if spec.IPFamilies[0] == other {
		other = corev1.IPv4Protocol
	}
	spec.IPFamilies = append(slices.Clip(spec.IPFamilies), other)
}

// served tells whether the cluster has addresses of a family.
func (g *grant) served(f corev1.IPFamily) bool { return len(g.rangesOf(f)) > 0 }
