package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestTenantNodes(t *testing.T) {
	t.Parallel()
	const refused = "node belongs to another tenant"
	policytest.Run(t, policytest.Table{
		Policy: "TenantNodes",
		Nodes: []policytest.Node{
			{Name: "shared"},
			{Name: "acme", Labels: map[string]string{"tenant": "acme"}},
		},
		Cases: []policytest.Case{
			{Name: "the tenant's own namespace", Pod: policytest.Pod{Namespace: "acme"}, Want: map[string]string{"shared": "", "acme": ""}},
			{Name: "a namespace under the tenant", Pod: policytest.Pod{Namespace: "acme-web"}, Want: map[string]string{"acme": ""}},
			{Name: "a name that only begins alike", Pod: policytest.Pod{Namespace: "acmeware"}, Want: map[string]string{"shared": "", "acme": refused}},
			{Name: "a stranger", Pod: policytest.Pod{Namespace: "default"}, Want: map[string]string{"shared": "", "acme": refused}},
		},
	})
}
