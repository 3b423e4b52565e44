package nft

import (
	"maps"
	"slices"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
)

// batch is how many elements one transaction has at most: while it is made
// nobody else's is. message is how many fit one netlink attribute (64 KiB).
const (
	batch   = 5000
	message = 400
)

// An op adds an element, removes it, or both: so is a value replaced.
type op struct {
	at       place
	add, del bool
}

// program makes the kernel have what is wanted at some places. The order is such
// that a connection always finds a backend: those that are added or moved first,
// then how many there are, those that went last.
func (t *table) program(touched map[place]bool) (err error) {
	defer func() {
		if err != nil {
			t.kernel.known = 0
		}
	}()
	var before, between, after []op
	for at := range touched {
		want, wanted := t.want[at]
		have, had := t.have[at]
		if wanted == had && want == have {
			continue
		}
		o := op{at: at, add: wanted, del: had}
		switch {
		case !isBackend(at.set):
			between = append(between, o)
		case wanted:
			before = append(before, o)
		default:
			after = append(after, o)
		}
	}
	missing := t.unmade()
	if len(before)+len(between)+len(after)+len(missing) == 0 {
		return nil
	}
	if err := t.make(missing); err != nil {
		return err
	}
	for ops := range slices.Chunk(slices.Concat(before, between, after), batch) {
		if err := t.send(ops); err != nil {
			return err
		}
	}
	return nil
}

func isBackend(set string) bool {
	switch set {
	case mapBackends, mapOutsideBackends, mapPortBackends, mapOutsidePortBack:
		return true
	}
	return false
}

// unmade are the chains that are wanted and not there.
func (t *table) unmade() (out []made) {
	for name, m := range t.chosen {
		if !t.chains[name] {
			out = append(out, m.made)
		}
	}
	return out
}

// make makes chains, with what they need.
func (t *table) make(list []made) error {
	for some := range slices.Chunk(list, 200) {
		c, err := t.kernel.conn()
		if err != nil {
			return err
		}
		made := map[string]bool{}
		memory := map[string]bool{}
		for _, m := range some {
			if err := t.makeOne(c, m, made, memory); err != nil {
				return err
			}
		}
		if err := t.kernel.flush(c); err != nil {
			return err
		}
		maps.Copy(t.chains, made)
		maps.Copy(t.memory, memory)
		t.kernel.sent.Add(int64(len(made) + len(memory)))
	}
	return nil
}

func (t *table) makeOne(c *nftables.Conn, m made, done, memory map[string]bool) error {
	if t.chains[m.name] || done[m.name] {
		return nil
	}
	for _, s := range m.sets {
		if t.memory[s.Name] || memory[s.Name] {
			continue
		}
		if err := addSet(c, s, nil); err != nil {
			return err
		}
		memory[s.Name] = true
	}
	for _, needed := range m.chains {
		if err := t.makeOne(c, needed, done, memory); err != nil {
			return err
		}
	}
	chain := c.AddChain(&nftables.Chain{Table: t.nft, Name: m.name})
	for _, r := range m.rules {
		c.AddRule(&nftables.Rule{Table: t.nft, Chain: chain, Exprs: r})
	}
	if len(m.choices) > 0 {
		r, err := t.choice(c, m.choices)
		if err != nil {
			return err
		}
		c.AddRule(&nftables.Rule{Table: t.nft, Chain: chain, Exprs: r})
	}
	done[m.name] = true
	return nil
}

// choice goes to one of some chains, by chance.
func (t *table) choice(c *nftables.Conn, chains []string) (rule, error) {
	set := &nftables.Set{
		Table: t.nft, Anonymous: true, Constant: true, IsMap: true, KeyType: nftables.TypeInteger, DataType: nftables.TypeVerdict,
	}
	var elements []nftables.SetElement
	for i, name := range chains {
		elements = append(elements, element(string(native(uint32(i))), valueGoto+name, true))
	}
	if err := addSet(c, set, elements); err != nil {
		return nil, err
	}
	return append(rule{}.key(random(len(chains))),
		&expr.Lookup{SourceRegister: 1, SetName: set.Name, SetID: set.ID, DestRegister: 0, IsDestRegSet: true}), nil
}

// send makes one transaction of some ops.
func (t *table) send(ops []op) error {
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	adds, dels := map[string][]nftables.SetElement{}, map[string][]nftables.SetElement{}
	for _, o := range ops {
		verdicts := t.verdicts(o.at.set)
		if o.del {
			dels[o.at.set] = append(dels[o.at.set], element(o.at.key, t.have[o.at], verdicts))
		}
		if o.add {
			adds[o.at.set] = append(adds[o.at.set], element(o.at.key, t.want[o.at], verdicts))
		}
	}
	for _, step := range []struct {
		elements map[string][]nftables.SetElement
		do       func(*nftables.Set, []nftables.SetElement) error
	}{{dels, c.SetDeleteElements}, {adds, c.SetAddElements}} {
		for _, set := range slices.Sorted(maps.Keys(step.elements)) {
			for some := range slices.Chunk(step.elements[set], message) {
				if err := step.do(t.sets[set], some); err != nil {
					return err
				}
			}
		}
	}
	if err := t.kernel.flush(c); err != nil {
		return err
	}
	t.kernel.sent.Add(int64(len(ops)))
	for _, o := range ops {
		if o.add {
			t.have[o.at] = t.want[o.at]
		} else {
			delete(t.have, o.at)
		}
	}
	return nil
}

// sweep removes the chains and affinity sets that nobody needs. A kernel older
// than 6.2 may think for a moment that one is still in use: it goes next time.
func (t *table) sweep() error {
	chains, memory := map[string]bool{}, map[string]bool{}
	var need func(m made)
	need = func(m made) {
		chains[m.name] = true
		for _, s := range m.sets {
			memory[s.Name] = true
		}
		for _, n := range m.chains {
			need(n)
		}
	}
	for _, m := range t.chosen {
		need(m.made)
	}
	idle := func(has, needed map[string]bool) (out []string) {
		for name := range has {
			if !needed[name] {
				out = append(out, name)
			}
		}
		slices.Sort(out) // a- before e-, which those go to
		return out
	}
	oldChains, oldMemory := idle(t.chains, chains), idle(t.memory, memory)
	if len(oldChains)+len(oldMemory) == 0 {
		return nil
	}
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	for _, name := range oldChains {
		c.FlushChain(&nftables.Chain{Table: t.nft, Name: name})
	}
	for _, name := range oldChains {
		c.DelChain(&nftables.Chain{Table: t.nft, Name: name})
	}
	for _, name := range oldMemory {
		c.DelSet(&nftables.Set{Table: t.nft, Name: name})
	}
	if err := t.kernel.flush(c); err != nil {
		t.kernel.cfg.Log.Debug("unused chains of services stay for now", "err", err)
		return nil
	}
	t.kernel.sent.Add(int64(len(oldChains) + len(oldMemory)))
	for _, name := range oldChains {
		delete(t.chains, name)
	}
	for _, name := range oldMemory {
		delete(t.memory, name)
	}
	return nil
}

// numbering guards the library's count of sets, which all its connections share.
var numbering sync.Mutex

func addSet(c *nftables.Conn, s *nftables.Set, elements []nftables.SetElement) error {
	numbering.Lock()
	defer numbering.Unlock()
	return c.AddSet(s, elements)
}
