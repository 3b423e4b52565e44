package nft

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"golang.org/x/sys/unix"
)

// lookAtFirewall tells when the machine's firewall drops what is forwarded,
// unless it has rules for the pods' bridge: what others drop, nobody can accept.
func (k *Kernel) lookAtFirewall() error {
	c, err := k.conn()
	if err != nil {
		return err
	}
	chains, err := c.ListChains()
	if err != nil {
		return fmt.Errorf("look at the machine's firewall: %w", err)
	}
	var blocked []string
	for _, l := range chains {
		if l.Hooknum == nil || *l.Hooknum != unix.NF_INET_FORWARD || l.Policy == nil || *l.Policy != nftables.ChainPolicyDrop ||
			l.Table.Family == nftables.TableFamilyBridge {
			continue
		}
		known, err := k.named(c, l.Table, chains)
		if err != nil {
			return err
		}
		if !known {
			blocked = append(blocked, fmt.Sprintf("table %s %s, chain %s", familyName(l.Table.Family), l.Table.Name, l.Name))
		}
	}
	slices.Sort(blocked)
	now := strings.Join(blocked, "; ")
	if now != "" && now != k.blocked {
		k.cfg.Log.Warn("the machine's firewall drops packets that are forwarded: pods reach, and are reached from, their own node alone, "+
			"until it accepts what comes from and goes to their bridge", "where", now, "bridge", k.cfg.Bridge,
			"do", fmt.Sprintf("iptables -I FORWARD -i %[1]s -j ACCEPT; iptables -I FORWARD -o %[1]s -j ACCEPT", k.cfg.Bridge))
	}
	k.blocked = now
	return nil
}

// named tells whether a table has a rule that names the pods' bridge.
func (k *Kernel) named(c *nftables.Conn, of *nftables.Table, chains []*nftables.Chain) (bool, error) {
	name := append([]byte(k.cfg.Bridge), 0)
	for _, l := range chains {
		if l.Table.Name != of.Name || l.Table.Family != of.Family {
			continue
		}
		rules, err := c.GetRules(of, l)
		if err != nil {
			return false, fmt.Errorf("look at the machine's firewall: %w", err)
		}
		for _, r := range rules {
			for _, e := range r.Exprs {
				if cmp, ok := e.(*expr.Cmp); ok && bytes.HasPrefix(cmp.Data, name) {
					return true, nil
				}
			}
		}
	}
	return false, nil
}

func familyName(f nftables.TableFamily) string {
	switch f {
	case nftables.TableFamilyIPv4:
		return "ip"
	case nftables.TableFamilyIPv6:
		return "ip6"
	}
	return "inet"
}
