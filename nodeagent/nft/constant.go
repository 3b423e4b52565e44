package nft

import (
	"slices"

	"github.com/google/nftables"
)

// chain is one of a table's constant ones.
type chain struct {
	name     string
	kind     nftables.ChainType
	hook     *nftables.ChainHook
	priority *nftables.ChainPriority
	rules    []rule
}

// holds tells whether the kernel has a table, and its constant part whole: each chain
// with all its rules.
func holds(c *nftables.Conn, t *nftables.Table, all []chain) (whole, exists bool, err error) {
	tables, err := c.ListTablesOfFamily(t.Family)
	if err != nil {
		return false, false, err
	}
	if !slices.ContainsFunc(tables, func(o *nftables.Table) bool { return o.Name == t.Name && o.Family == t.Family }) {
		return false, false, nil
	}
	has, err := chainNames(c, t)
	if err != nil {
		return false, true, err
	}
	for _, l := range all {
		if !has[l.name] {
			return false, true, nil
		}
		if rules, err := c.GetRules(t, &nftables.Chain{Name: l.name}); err != nil || len(rules) != len(l.rules) {
			return false, true, err
		}
	}
	return true, true, nil
}

func chainNames(c *nftables.Conn, t *nftables.Table) (map[string]bool, error) {
	list, err := c.ListChainsOfTableFamily(t.Family)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, l := range list {
		if l.Table.Name == t.Name {
			out[l.Name] = true
		}
	}
	return out, nil
}

// addChains adds all first: their rules go from one to another.
func addChains(c *nftables.Conn, t *nftables.Table, all []chain) {
	for _, l := range all {
		c.AddChain(&nftables.Chain{Table: t, Name: l.name, Type: l.kind, Hooknum: l.hook, Priority: l.priority})
	}
	for _, l := range all {
		for _, r := range l.rules {
			c.AddRule(&nftables.Rule{Table: t, Chain: &nftables.Chain{Name: l.name}, Exprs: r})
		}
	}
}
