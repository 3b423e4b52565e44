// Package admission is what Kubernetes' own admission plugins do, written
// against package registry: it completes objects before they are validated and
// refuses those that a cluster's rules forbid.
//
//	NamespaceLifecycle   the system's namespaces stay; new ones are prepared
//	LimitRanger          default requests and limits; bounds
//	ServiceAccount       default account, its token's volume, pull secrets
//	NodeRestriction      a machine writes its own objects only
//	NodeTaint            a new node is not-ready until it says otherwise
//	Priority             priority and preemption policy from the class
//	DefaultTolerations   300 s for nodes that are not ready or unreachable
//	PodTopologyLabels    zone and region of a pod's node, where a client binds it
//	ClaimResize          a claim grows where its class lets it
//	ClaimAttributes      a bound claim keeps its class of volume attributes
//	RBAC escalation      nobody grants what they don't have
//	PodSecurity          the standard that the namespace's labels name
//	ResourceQuota        counts, and refuses what would go beyond
//
// Each plugin names the resources that it looks at; a write of another resource
// does not meet it. All answers come from memory. Messages are Kubernetes' own,
// since clients match on them.
package admission
