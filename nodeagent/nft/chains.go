package nft

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// made is a chain that some element goes to, with what it needs.
type made struct {
	name  string
	rules []rule
	// chains and sets that the rules name, to be made before.
	chains []made
	sets   []*nftables.Set
	// verdicts of an anonymous map that the last rule ends by, from 0 on.
	choices []string
}

// choose gives the chain by which one of k backends of a map is chosen.
func (f *family) choose(t *forward.Target, ports bool) made {
	prefix, set := "n", mapBackends
	switch {
	case t.KeepSource:
		prefix, set = "l", mapOutsideBackends
	case t.Masquerade:
		prefix = "m"
	}
	parts := []part{f.daddr(), protocol, dport}
	if ports {
		prefix, parts = "p"+prefix, parts[1:]
		set = map[string]string{mapBackends: mapPortBackends, mapOutsideBackends: mapOutsidePortBack}[set]
	}
	k := len(t.Backends)
	rules := append(f.marking(t), rule{}.key(append(parts, random(k))...).dnat(f, set))
	return made{name: prefix + strconv.Itoa(k), rules: rules}
}

// marking marks for masquerading who needs it.
func (f *family) marking(t *forward.Target) []rule {
	switch {
	case t.KeepSource:
		return nil
	case t.Masquerade:
		return []rule{rule{}.mark()}
	}
	return []rule{rule{}.key(f.saddr()).notIn(setPods).mark()}
}

// stick gives the chain of a target with affinity: clients that a backend's set
// has go there, others anywhere, and are put into its set.
func (f *family) stick(table *nftables.Table, t *forward.Target, l4 forward.Protocol) made {
	var names []string
	for _, b := range t.Backends {
		names = append(names, b.String())
	}
	seconds := strconv.Itoa(int(t.Affinity / time.Second))
	out := made{
		name:  hashed("a", t.Group, seconds, strconv.FormatBool(t.Masquerade), strconv.FormatBool(t.KeepSource), strings.Join(names, " ")),
		rules: f.marking(t),
	}
	for _, b := range t.Backends {
		set := &nftables.Set{
			Table: table, Name: hashed("s", t.Group, seconds, b.String()), KeyType: f.address,
			Dynamic: true, HasTimeout: true, Timeout: t.Affinity, Size: 65535,
		}
		end := made{
			name: hashed("e", t.Group, seconds, b.String()),
			rules: []rule{
				append(rule{}.key(f.saddr()), &expr.Dynset{SrcRegKey: 1, SetName: set.Name, Operation: 1}), // update
				rule{}.key(protocol).cmp(expr.CmpOpEq, byte(l4)).dnatTo(f, b),
			},
			sets: []*nftables.Set{set},
		}
		out.chains = append(out.chains, end)
		out.rules = append(out.rules, rule{}.key(f.saddr()).in(set.Name).verdict(expr.VerdictGoto, end.name))
		out.choices = append(out.choices, end.name)
	}
	return out
}

// only gives the chain that lets none but some sources through.
func (f *family) only(sources []netip.Prefix) made {
	out := made{name: hashed("f", fmt.Sprint(sources))}
	for _, s := range sources {
		if f.has(s.Addr()) {
			out.rules = append(out.rules, rule{}.key(f.saddr()).within(expr.CmpOpEq, s).verdict(expr.VerdictReturn, ""))
		}
	}
	out.rules = append(out.rules, rule{}.verdict(expr.VerdictDrop, ""))
	return out
}

// hashed names a chain or set by what is in it.
func hashed(prefix string, words ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(words, "\x00")))
	return prefix + "-" + hex.EncodeToString(sum[:10])
}
