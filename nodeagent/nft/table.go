package nft

import (
	"encoding/binary"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// table is one family's.
type table struct {
	*family
	kernel *Kernel
	nft    *nftables.Table
	sets   map[string]*nftables.Set

	// have is what the kernel has, want what it shall.
	have, want map[place]string
	// chains and affinity sets that the kernel has, beside the constant ones.
	chains, memory map[string]bool
	// fronts have their elements' chains kept, by name with how many go there.
	fronts map[forward.Front]elements
	chosen map[string]*counted
}

// counted is a chain with how many elements go to it.
type counted struct {
	made
	by int
}

func newTable(k *Kernel, f *family) *table {
	t := &nftables.Table{Family: f.table, Name: "berth-" + k.cfg.Bridge}
	return &table{
		family: f, kernel: k, nft: t, sets: f.sets(t), have: map[place]string{}, want: map[place]string{},
		chains: map[string]bool{}, memory: map[string]bool{}, fronts: map[forward.Front]elements{}, chosen: map[string]*counted{},
	}
}

// verdicts tells whether a map's values are verdicts.
func (t *table) verdicts(set string) bool {
	s := t.sets[set]
	return s.IsMap && s.DataType.Name == nftables.TypeVerdict.Name
}

// lay makes the table and its constant part, unless it is there.
func (t *table) lay() error {
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	whole, exists, err := t.whole(c)
	if err != nil || whole {
		return err
	}
	if exists {
		c.DelTable(t.nft)
	}
	c.AddTable(t.nft)
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		var elements []nftables.SetElement
		if name == setPods {
			elements = t.podElements(t.kernel.cfg.PodRanges)
		}
		if err := c.AddSet(t.sets[name], elements); err != nil {
			return err
		}
	}
	all := t.family.chains(t.kernel.cfg)
	for _, l := range all {
		made := &nftables.Chain{Table: t.nft, Name: l.name, Type: l.kind, Hooknum: l.hook, Priority: l.priority}
		c.AddChain(made)
	}
	for _, l := range all {
		for _, r := range l.rules {
			c.AddRule(&nftables.Rule{Table: t.nft, Chain: &nftables.Chain{Name: l.name}, Exprs: r})
		}
	}
	t.kernel.sent.Add(int64(len(t.sets) + len(all)))
	t.have, t.chains, t.memory = map[place]string{}, map[string]bool{}, map[string]bool{}
	return c.Flush()
}

// whole tells whether the constant part is there, each chain with all its rules.
func (t *table) whole(c *nftables.Conn) (whole, exists bool, err error) {
	tables, err := c.ListTablesOfFamily(t.table)
	if err != nil {
		return false, false, err
	}
	if !slices.ContainsFunc(tables, func(o *nftables.Table) bool { return o.Name == t.nft.Name && o.Family == t.table }) {
		return false, false, nil
	}
	has, err := t.chainNames(c)
	if err != nil {
		return false, true, err
	}
	for _, l := range t.family.chains(t.kernel.cfg) {
		if !has[l.name] {
			return false, true, nil
		}
		if n, err := t.countRules(c, l.name); err != nil || n != len(l.rules) {
			return false, true, err
		}
	}
	return true, true, nil
}

func (t *table) countRules(c *nftables.Conn, chain string) (int, error) {
	rules, err := c.GetRules(t.nft, &nftables.Chain{Name: chain})
	return len(rules), err
}

func (t *table) chainNames(c *nftables.Conn) (map[string]bool, error) {
	list, err := c.ListChainsOfTableFamily(t.table)
	if err != nil {
		return nil, err
	}
	out := map[string]bool{}
	for _, l := range list {
		if l.Table.Name == t.nft.Name {
			out[l.Name] = true
		}
	}
	return out, nil
}

// read learns what the kernel has.
func (t *table) read() error {
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	names, err := t.chainNames(c)
	if err != nil {
		return err
	}
	for _, l := range t.family.chains(t.kernel.cfg) {
		delete(names, l.name)
	}
	sets, err := c.GetSets(t.nft)
	if err != nil {
		return err
	}
	memory := map[string]bool{}
	for _, s := range sets {
		if strings.HasPrefix(s.Name, "s-") {
			memory[s.Name] = true
		}
	}
	have := map[place]string{}
	for name, s := range t.sets {
		if name == setPods {
			continue
		}
		list, err := c.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		for i := range list {
			value := string(list[i].Val)
			if t.verdicts(name) {
				if value, err = verdictOf(list[i].Val); err != nil {
					return fmt.Errorf("read %s: %w", name, err)
				}
			}
			have[place{name, string(list[i].Key)}] = value
		}
	}
	t.have, t.chains, t.memory = have, names, memory
	return nil
}

// verdictOf reads a verdict as the kernel tells it.
func verdictOf(data []byte) (string, error) {
	attributes, err := netlink.NewAttributeDecoder(data)
	if err != nil {
		return "", err
	}
	attributes.ByteOrder = binary.BigEndian
	var kind expr.VerdictKind
	var chain string
	for attributes.Next() {
		switch attributes.Type() {
		case unix.NFTA_VERDICT_CODE:
			kind = expr.VerdictKind(int32(attributes.Uint32()))
		case unix.NFTA_VERDICT_CHAIN:
			chain = attributes.String()
		}
	}
	if err := attributes.Err(); err != nil {
		return "", err
	}
	switch kind {
	case expr.VerdictDrop:
		return valueDrop, nil
	case expr.VerdictJump:
		return valueJump + chain, nil
	}
	return valueGoto + chain, nil
}

func (t *table) remove() error {
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	c.DelTable(t.nft)
	return c.Flush()
}

// apply makes a change, and once more from what the kernel really has if that
// is not what was remembered.
func (t *table) apply(c forward.Change, complete bool) error {
	touched := map[place]bool{}
	if complete {
		for front := range t.fronts {
			if _, named := c.Fronts[front]; !named {
				t.set(front, nil, touched)
			}
		}
		for at := range t.have {
			touched[at] = true
		}
		maps.DeleteFunc(t.want, func(at place, _ string) bool { return at.set == setVirtual || at.set == setHairpin })
	}
	stale := t.stale(c)
	for front, e := range c.Fronts {
		if t.has(front.Addr) {
			t.set(front, e, touched)
		}
	}
	for set, list := range map[string]map[netip.Addr]bool{setVirtual: c.Virtual, setHairpin: c.Hairpin} {
		for a, there := range list {
			if !t.has(a) {
				continue
			}
			at := place{set, string(a.AsSlice())}
			if set == setHairpin {
				at.key += at.key
			}
			touched[at] = true
			if delete(t.want, at); there {
				t.want[at] = ""
			}
		}
	}
	if err := t.program(touched); err != nil {
		t.kernel.cfg.Log.Warn("the kernel refuses a change of service rules; read again", "err", err)
		if err := t.repair(); err != nil {
			return err
		}
	}
	return t.forget(stale)
}

// set writes what a front's elements shall be.
func (t *table) set(front forward.Front, e *forward.Entry, touched map[place]bool) {
	now := t.of(t.nft, front, e)
	for at := range t.fronts[front].values {
		touched[at] = true
		delete(t.want, at)
	}
	for at, value := range now.values {
		touched[at] = true
		t.want[at] = value
	}
	for _, m := range now.chains {
		if t.chosen[m.name] == nil {
			t.chosen[m.name] = &counted{made: m}
		}
		t.chosen[m.name].by++
	}
	for _, m := range t.fronts[front].chains {
		has := t.chosen[m.name]
		if has.by--; has.by == 0 {
			delete(t.chosen, m.name)
		}
	}
	if e == nil {
		delete(t.fronts, front)
	} else {
		t.fronts[front] = now
	}
}

// repair reads the kernel, mends what differs, and removes what nobody needs.
func (t *table) repair() error {
	if err := t.lay(); err != nil {
		return err
	}
	if err := t.read(); err != nil {
		return err
	}
	touched := map[place]bool{}
	for at := range t.have {
		touched[at] = true
	}
	for at := range t.want {
		touched[at] = true
	}
	if err := t.program(touched); err != nil {
		return err
	}
	return t.sweep()
}
