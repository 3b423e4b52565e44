package nft

import (
	"maps"
	"slices"

	"github.com/google/nftables"

	"github.com/berth-dev/berth/nodeagent/forward"
)

// transaction gathers messages, and sends them when they are many: while one is
// made nobody else's is.
type transaction struct {
	t    *filter
	conn *nftables.Conn
	size int
	done []func() // what is remembered of it once it is made
}

func (x *transaction) add(n int, done func()) error {
	x.size += n
	x.done = append(x.done, done)
	if x.size < batch {
		return nil
	}
	return x.flush()
}

func (x *transaction) flush() error {
	if x.size == 0 {
		return nil
	}
	if err := x.t.kernel.flush(x.conn); err != nil {
		return err
	}
	x.t.kernel.sent.Add(int64(x.size))
	for _, f := range x.done {
		f()
	}
	x.size, x.done = 0, nil
	return nil
}

// program makes the kernel have what is wanted at some places. The order is such
// that nobody who may is kept out meanwhile: peers that come first, then chains,
// then which chain is whose, and peers that leave at the end.
func (t *filter) program(touched map[place]bool) (err error) {
	defer func() {
		if err != nil {
			t.kernel.known = 0
		}
	}()
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	x := &transaction{t: t, conn: c}
	made := map[string]*nftables.Set{}
	if err := t.makeSets(x, made, touched); err != nil {
		return err
	}
	join, leave, point := t.differences(touched)
	if err := t.elements(x, join, made); err != nil {
		return err
	}
	if err := t.makeChains(x); err != nil {
		return err
	}
	if err := t.elements(x, point, made); err != nil {
		return err
	}
	if err := t.elements(x, leave, made); err != nil {
		return err
	}
	return x.flush()
}

// makeSets makes those that are needed and not there.
func (t *filter) makeSets(x *transaction, made map[string]*nftables.Set, touched map[place]bool) error {
	ranges := map[string][]forward.Range{}
	for _, r := range t.chosen {
		maps.Copy(ranges, r.ranges)
	}
	for _, name := range slices.Sorted(maps.Keys(t.needed)) {
		if t.sets[name] != nil {
			continue
		}
		s := t.peers(t.nft, name)
		if err := addSet(x.conn, s, nil); err != nil {
			return err
		}
		for some := range slices.Chunk(intervals(ranges[name]), message) {
			if err := x.conn.SetAddElements(s, some); err != nil {
				return err
			}
		}
		made[name] = s
		for key := range t.want[name] {
			touched[place{name, key}] = true
		}
		// Not flushed before its ranges are in it: a set that is there is right.
		if err := x.add(1+len(ranges[name]), func() { t.sets[name], t.have[name] = s, map[string]string{} }); err != nil {
			return err
		}
	}
	return nil
}

// differences sorts what is to do by when.
func (t *filter) differences(touched map[place]bool) (join, leave, point []op) {
	for at := range touched {
		want, wanted := t.want[at.set][at.key]
		have, had := t.have[at.set][at.key]
		if isPeers(at.set) && t.needed[at.set] == 0 || wanted == had && want == have {
			continue
		}
		o := op{at: at, add: wanted, del: had}
		switch {
		case !isPeers(at.set):
			point = append(point, o)
		case wanted:
			join = append(join, o)
		default:
			leave = append(leave, o)
		}
	}
	return join, leave, point
}

func (t *filter) elements(x *transaction, ops []op, made map[string]*nftables.Set) error {
	bySet := map[string][]op{}
	for _, o := range ops {
		bySet[o.at.set] = append(bySet[o.at.set], o)
	}
	for _, name := range slices.Sorted(maps.Keys(bySet)) {
		s := t.sets[name]
		if s == nil {
			s = made[name]
		}
		for some := range slices.Chunk(bySet[name], message) {
			if err := t.send(x, s, some); err != nil {
				return err
			}
		}
	}
	return nil
}

func (t *filter) send(x *transaction, s *nftables.Set, ops []op) error {
	var dels, adds []nftables.SetElement
	for _, o := range ops {
		if o.del {
			dels = append(dels, element(o.at.key, t.have[o.at.set][o.at.key], s.IsMap))
		}
		if o.add {
			adds = append(adds, element(o.at.key, t.want[o.at.set][o.at.key], s.IsMap))
		}
	}
	if len(dels) > 0 {
		if err := x.conn.SetDeleteElements(s, dels); err != nil {
			return err
		}
	}
	if len(adds) > 0 {
		if err := x.conn.SetAddElements(s, adds); err != nil {
			return err
		}
	}
	return x.add(len(ops), func() {
		for _, o := range ops {
			if !o.add {
				delete(t.have[o.at.set], o.at.key)
				continue
			}
			if t.have[o.at.set] == nil {
				t.have[o.at.set] = map[string]string{}
			}
			t.have[o.at.set][o.at.key] = t.want[o.at.set][o.at.key]
		}
	})
}

// makeChains makes those that are wanted and not there.
func (t *filter) makeChains(x *transaction) error {
	done := map[string]bool{}
	for _, r := range t.chosen {
		for _, m := range append(slices.Clone(r.chains), r.made) {
			if t.chains[m.name] || done[m.name] {
				continue
			}
			done[m.name] = true
			chain := x.conn.AddChain(&nftables.Chain{Table: t.nft, Name: m.name})
			for _, rule := range m.rules {
				x.conn.AddRule(&nftables.Rule{Table: t.nft, Chain: chain, Exprs: rule})
			}
			if err := x.add(1+len(m.rules), func() { t.chains[m.name] = true }); err != nil {
				return err
			}
		}
	}
	return nil
}

// sweep removes the chains and sets that nobody needs. A kernel older than 6.2 may
// think for a moment that one is still in use: it goes next time.
func (t *filter) sweep() error {
	chains, sets := t.unused()
	if len(chains)+len(sets) == 0 {
		return nil
	}
	c, err := t.kernel.conn()
	if err != nil {
		return err
	}
	for _, name := range chains {
		c.FlushChain(&nftables.Chain{Table: t.nft, Name: name})
	}
	for _, name := range chains {
		c.DelChain(&nftables.Chain{Table: t.nft, Name: name})
	}
	for _, name := range sets {
		c.DelSet(&nftables.Set{Table: t.nft, Name: name})
	}
	if err := t.kernel.flush(c); err != nil {
		t.kernel.cfg.Log.Debug("unused chains of network policies stay for now", "err", err)
		return nil
	}
	t.kernel.sent.Add(int64(len(chains) + len(sets)))
	for _, name := range chains {
		delete(t.chains, name)
	}
	for _, name := range sets {
		delete(t.sets, name)
		delete(t.have, name)
	}
	return nil
}

// unused are the chains that no policy has any more, and the sets that none names.
func (t *filter) unused() (chains, sets []string) {
	used := map[string]bool{}
	for _, r := range t.chosen {
		used[r.name] = true
		for _, m := range r.chains {
			used[m.name] = true
		}
	}
	for name := range t.chains {
		if !used[name] {
			chains = append(chains, name)
		}
	}
	for name := range t.sets {
		if isPeers(name) && t.needed[name] == 0 {
			sets = append(sets, name)
		}
	}
	slices.Sort(chains) // those that jump, e- and i-, before q-, which they jump to
	return chains, sets
}
