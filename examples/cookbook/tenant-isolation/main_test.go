package main

import (
	"testing"

	"github.com/berth-dev/berth/sdk/policytest"
)

func TestTenantIsolation(t *testing.T) {
	t.Parallel()
	const refused = "node belongs to another tenant"
	policytest.Run(t, policytest.Table{
		Policy: "TenantIsolation",
		Namespaces: map[string]map[string]string{
			"web": {"tenant": "acme"}, "shop": {"tenant": "other"}, "default": nil,
		},
		Nodes: []policytest.Node{
			{Name: "shared"},
			{Name: "acme", Labels: map[string]string{"tenant": "acme"}},
		},
		Cases: []policytest.Case{
			{Name: "a namespace of the tenant", Pod: policytest.Pod{Namespace: "web"}, Want: map[string]string{"shared": "", "acme": ""}},
			{Name: "one of another", Pod: policytest.Pod{Namespace: "shop"}, Want: map[string]string{"shared": "", "acme": refused}},
			{Name: "one without the label", Pod: policytest.Pod{Namespace: "default"}, Want: map[string]string{"shared": "", "acme": refused}},
			{Name: "one that nobody knows", Pod: policytest.Pod{Namespace: "new"}, Want: map[string]string{"shared": "", "acme": refused}},
		},
	})
	policytest.Refuses(t, "TenantIsolation", `{"labels":"tenant"}`)
}
