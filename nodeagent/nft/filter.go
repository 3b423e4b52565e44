package nft

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// filter is one family's table of policies.
type filter struct {
	*family
	kernel *Kernel
	nft    *nftables.Table
	sets   map[string]*nftables.Set // the constant ones, and those that the kernel has

	// have is what the kernel has, want what it shall, by set and key.
	have, want map[string]map[string]string
	chains     map[string]bool // that the kernel has, beside the constant ones
	// pods by address, and what their chains are made of. needed are the peers'
	// sets, by how many of those name them.
	pods   map[netip.Addr]*forward.Isolation
	chosen map[chosen]*rendered
	needed map[string]int
}

type chosen struct {
	prefix string
	*forward.Allowed
}

func newFilter(k *Kernel, f *family) *filter {
	t := &nftables.Table{Family: f.table, Name: "berth-" + k.cfg.Bridge + "-policy"}
	return &filter{
		family: f, kernel: k, nft: t, sets: f.filterSets(t), have: map[string]map[string]string{}, want: map[string]map[string]string{},
		chains: map[string]bool{}, pods: map[netip.Addr]*forward.Isolation{}, chosen: map[chosen]*rendered{}, needed: map[string]int{},
	}
}

// lay makes the table and its constant part, unless it is there.
func (t *filter) lay() error {
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	all := t.filterChains()
	whole, exists, err := holds(c, t.nft, all)
	if err != nil || whole {
		return err
	}
	if exists {
		c.DelTable(t.nft)
	}
	c.AddTable(t.nft)
	t.sets = t.filterSets(t.nft)
	for _, name := range slices.Sorted(maps.Keys(t.sets)) {
		if err := addSet(c, t.sets[name], nil); err != nil {
			return err
		}
	}
	addChains(c, t.nft, all)
	t.kernel.sent.Add(int64(len(t.sets) + len(all)))
	t.have, t.chains = map[string]map[string]string{}, map[string]bool{}
	return t.kernel.flush(c)
}

// read learns what the kernel has.
func (t *filter) read() error {
	c, err := t.kernel.reader()
	if err != nil {
		return err
	}
	names, err := chainNames(c, t.nft)
	if err != nil {
		return err
	}
	for _, l := range t.filterChains() {
		delete(names, l.name)
	}
	list, err := c.GetSets(t.nft)
	if err != nil {
		return err
	}
	sets, have := t.filterSets(t.nft), map[string]map[string]string{}
	for _, s := range list {
		if peers := t.peers(t.nft, s.Name); peers != nil {
			sets[s.Name] = peers
		}
	}
	for name, s := range sets {
		if have[name] = map[string]string{}; s.Interval {
			continue // one that is there is right
		}
		elements, err := c.GetSetElements(s)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		for i := range elements {
			value := ""
			if s.IsMap {
				if value, err = verdictOf(elements[i].Val); err != nil {
					return fmt.Errorf("read %s: %w", name, err)
				}
			}
			have[name][string(elements[i].Key)] = value
		}
	}
	t.sets, t.have, t.chains = sets, have, names
	return nil
}

// apply makes a change, and once more from what the kernel really has if that
// is not what was remembered.
func (t *filter) apply(f forward.Filter, complete bool) error {
	touched := map[place]bool{}
	if complete {
		for a := range t.pods {
			if f.Pods[a] == nil {
				t.isolate(a, nil, touched)
			}
		}
		clear(t.want)
		for a, i := range t.pods { // of those that are named too
			t.point(a, i)
		}
		t.all(touched)
	}
	for name, c := range f.Sets {
		t.change(name, c, touched)
	}
	for a, i := range f.Pods {
		if t.has(a) {
			t.isolate(a, i, touched)
		}
	}
	err := t.program(touched)
	if err != nil && !t.kernel.filtered {
		return err
	}
	if err != nil {
		t.kernel.cfg.Log.Warn("the kernel refuses a change of network policies; read again", "err", err)
		return t.repair()
	}
	return t.sweep()
}

// all notes each element that is there or wanted.
func (t *filter) all(touched map[place]bool) {
	for _, sets := range []map[string]map[string]string{t.have, t.want} {
		for name, keys := range sets {
			for key := range keys {
				touched[place{name, key}] = true
			}
		}
	}
}

// change writes who shall be in a set.
func (t *filter) change(set forward.Set, c forward.SetChange, touched map[place]bool) {
	if c.Anew {
		for _, prefix := range []string{peersSet, namedSet} {
			for key := range t.want[prefix+string(set)] {
				touched[place{prefix + string(set), key}] = true
			}
			delete(t.want, prefix+string(set))
		}
	}
	for _, list := range []struct {
		members []forward.Member
		there   bool
	}{{c.Leave, false}, {c.Join, true}} {
		for _, m := range list.members {
			if t.has(m.Addr) {
				t.put(memberPlace(set, m), "", list.there)
				touched[memberPlace(set, m)] = true
			}
		}
	}
}

func memberPlace(set forward.Set, m forward.Member) place {
	if m.Port == 0 {
		return place{peersSet + string(set), string(m.Addr.AsSlice())}
	}
	return place{namedSet + string(set), frontKey(forward.Front(m))}
}

func (t *filter) put(at place, value string, there bool) {
	if !there {
		delete(t.want[at.set], at.key)
		return
	}
	if t.want[at.set] == nil {
		t.want[at.set] = map[string]string{}
	}
	t.want[at.set][at.key] = value
}

// isolate writes what a pod of this machine may do; nil is everything.
func (t *filter) isolate(a netip.Addr, now *forward.Isolation, touched map[place]bool) {
	was := t.pods[a]
	t.choose(now, 1)
	t.choose(was, -1)
	if t.pods[a] = now; now == nil {
		delete(t.pods, a)
	}
	key := string(a.AsSlice())
	for _, at := range []place{{setItself, key + key}, {mapEgress, key}, {mapIngress, key}} {
		touched[at] = true
	}
	t.point(a, now)
}

// point writes to which chains a pod's packets go.
func (t *filter) point(a netip.Addr, now *forward.Isolation) {
	key := string(a.AsSlice())
	t.put(place{setItself, key + key}, "", now != nil)
	for _, p := range []struct {
		set string
		way
		allowed *forward.Allowed
	}{{mapEgress, egress, now.To()}, {mapIngress, ingress, now.From()}} {
		if p.allowed == nil {
			t.put(place{p.set, key}, "", false)
			continue
		}
		t.put(place{p.set, key}, valueGoto+t.chosen[chosen{p.prefix, p.allowed}].name, true)
	}
}

// choose counts who needs what is allowed.
func (t *filter) choose(i *forward.Isolation, by int) {
	for _, p := range []struct {
		way
		allowed *forward.Allowed
	}{{egress, i.To()}, {ingress, i.From()}} {
		if p.allowed == nil {
			continue
		}
		key := chosen{p.prefix, p.allowed}
		r := t.chosen[key]
		if r == nil {
			r = t.render(p.way, p.allowed)
			t.chosen[key] = r
			for _, name := range r.peers {
				t.needed[name]++
			}
		}
		if r.by += by; r.by == 0 {
			delete(t.chosen, key)
			for _, name := range r.peers {
				if t.needed[name]--; t.needed[name] == 0 {
					delete(t.needed, name)
				}
			}
		}
	}
}

// repair reads the kernel, mends what differs, and removes what nobody needs.
func (t *filter) repair() error {
	if err := t.lay(); err != nil {
		return err
	}
	if err := t.read(); err != nil {
		return err
	}
	touched := map[place]bool{}
	t.all(touched)
	if err := t.program(touched); err != nil {
		return err
	}
	return t.sweep()
}

// denied reads how many packets policies refused.
func (t *filter) denied(c *nftables.Conn, chain string) (uint64, error) {
	rules, err := c.GetRules(t.nft, &nftables.Chain{Name: chain})
	if err != nil {
		return 0, err
	}
	for _, r := range rules {
		for _, e := range r.Exprs {
			if counter, ok := e.(*expr.Counter); ok {
				return counter.Packets, nil
			}
		}
	}
	return 0, nil
}

// openFilters finds the tables of policies, or lays them.
func (k *Kernel) openFilters() error {
	for _, t := range k.tables {
		f := newFilter(k, t.family)
		if err := errors.Join(f.lay(), f.read()); err != nil {
			return fmt.Errorf("lay rules for network policies: %w", err)
		}
		k.filters = append(k.filters, f)
	}
	return nil
}

// Filter makes what network policies allow a change of. What it does not name
// stays, unless complete: then that goes, which is how a process begins.
func (k *Kernel) Filter(f forward.Filter, complete bool) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.filtered = k.filtered || complete
	var errs []error
	for _, t := range k.filters {
		errs = append(errs, t.apply(f, complete))
	}
	return errors.Join(errs...)
}

// Denied counts the packets of new connections that policies refused, since the
// machine started.
func (k *Kernel) Denied() (ingress, egress uint64, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	c, err := k.conn()
	if err != nil {
		return 0, 0, err
	}
	for _, t := range k.filters {
		in, errIn := t.denied(c, deniedIn)
		out, errOut := t.denied(c, deniedOut)
		if err := errors.Join(errIn, errOut); err != nil {
			return 0, 0, fmt.Errorf("read counters of network policies: %w", err)
		}
		ingress, egress = ingress+in, egress+out
	}
	return ingress, egress, nil
}

// isPeers tells whether a set is one of peers, which is made and goes.
func isPeers(set string) bool {
	return strings.HasPrefix(set, peersSet) || strings.HasPrefix(set, namedSet) || strings.HasPrefix(set, rangesSet)
}
