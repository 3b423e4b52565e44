// Command tenant-isolation gives tenants nodes of their own: a node that
// carries the tenant label takes pods of that tenant's namespaces alone, which
// carry the same label. Who may label namespaces decides who is a tenant.
package main

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
)

type tenantIsolation struct {
	label  string
	tenant map[facts.Symbol]string // by namespace
}

func (t *tenantIsolation) Configure(c sdk.Config) error {
	t.label = c.String("label", "tenant")
	t.tenant = map[facts.Symbol]string{}
	return c.OnlyKeys("label")
}

// ObjectChanged is told of each namespace, since the policy reads that group.
func (t *tenantIsolation) ObjectChanged(o *facts.Object) {
	t.tenant[o.Name], _ = o.Labels.Get(t.label)
}

func (t *tenantIsolation) ObjectRemoved(o *facts.Object) { delete(t.tenant, o.Name) }

func (t *tenantIsolation) Filter(pod *sdk.Pod, node *sdk.Node) sdk.Verdict {
	if owner := node.Label(t.label); owner == "" || owner == t.tenant[pod.Namespace] {
		return sdk.Admit
	}
	return sdk.RejectFinal("node belongs to another tenant")
}

func init() {
	sdk.Predicate("TenantIsolation", &tenantIsolation{}, sdk.Reads(sdk.PodLabels|sdk.NodeLabels|sdk.Namespaces),
		sdk.Describe("Keeps a tenant's nodes for the namespaces that carry the tenant's label."))
}

func main() {}
