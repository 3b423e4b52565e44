// Command tenant-nodes gives tenants nodes of their own: a node that carries
// the tenant label takes pods of that tenant's namespaces alone. A namespace
// belongs to a tenant if it is called as the tenant, or begins with it and "-".
package main

import (
	"strings"

	"github.com/berth-dev/berth/sdk"
)

type tenantNodes struct{ label string }

func (n *tenantNodes) Configure(c sdk.Config) error {
	n.label = c.String("label", "tenant")
	return c.OnlyKeys("label")
}

func (n *tenantNodes) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	tenant := node.Label(n.label)
	if tenant == "" {
		return sdk.Admit
	}
	if rest, ok := strings.CutPrefix(pod.NamespaceName(), tenant); ok && (rest == "" || rest[0] == '-') {
		return sdk.Admit
	}
	return sdk.RejectFinal("node belongs to another tenant")
}

func init() {
	sdk.Predicate("TenantNodes", &tenantNodes{}, sdk.Reads(sdk.PodLabels|sdk.NodeLabels),
		sdk.Describe("Keeps a tenant's nodes for the tenant's namespaces."))
}

func main() {}
