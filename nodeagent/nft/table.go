package nft

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/google/nftables"
	"github.com/google/nftables/expr"
	"github.com/mdlayher/netlink"
	"golang.org/x/sync/errgroup"
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
	// pinned fronts hide what services want there, which is in hidden. hairpin are
	// the services' backends on this machine.
	pinned  map[forward.Front]pinned
	hidden  map[forward.Front]*forward.Entry
	hairpin map[netip.Addr]bool
	// stale are UDP fronts whose flows are to be looked at.
	stale map[forward.Front]bool
}

// pinned is whose a front is.
type pinned struct {
	owner string
	*forward.Entry
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
		pinned: map[forward.Front]pinned{}, hidden: map[forward.Front]*forward.Entry{}, hairpin: map[netip.Addr]bool{}, stale: map[forward.Front]bool{},
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
	all := t.family.chains(t.kernel.cfg)
	whole, exists, err := holds(c, t.nft, all)
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
			elements = t.podElements(t.kernel.cfg.ClusterRanges)
		}
		if err := addSet(c, t.sets[name], elements); err != nil {
			return err
		}
	}
	addChains(c, t.nft, all)
	t.kernel.sent.Add(int64(len(t.sets) + len(all)))
	t.have, t.chains, t.memory = map[place]string{}, map[string]bool{}, map[string]bool{}
	return t.kernel.flush(c)
}

// read learns what the kernel has.
func (t *table) read() error {
	c, err := t.kernel.reader()
	if err != nil {
		return err
	}
	names, err := chainNames(c, t.nft)
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
	have, err := t.elements(c)
	if err != nil {
		return err
	}
	t.have, t.chains, t.memory = have, names, memory
	return nil
}

// elements reads all sets but the constant one, beside each other: one alone keeps
// a single processor busy.
func (t *table) elements(c *nftables.Conn) (map[place]string, error) {
	var group errgroup.Group
	group.SetLimit(runtime.GOMAXPROCS(0))
	var mu sync.Mutex
	have := map[place]string{}
	for _, name := range slices.Sorted(maps.Keys(t.sets)) { // backends first, the largest
		if name == setPods {
			continue
		}
		group.Go(func() error {
			list, err := c.GetSetElements(t.sets[name])
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			values, err := t.values(name, list)
			if err != nil {
				return fmt.Errorf("read %s: %w", name, err)
			}
			mu.Lock()
			defer mu.Unlock()
			for i := range list {
				have[place{name, string(list[i].Key)}] = values[i]
			}
			return nil
		})
	}
	return have, group.Wait()
}

// values are those of a set's elements.
func (t *table) values(set string, list []nftables.SetElement) ([]string, error) {
	values := make([]string, len(list))
	for i := range list {
		values[i] = string(list[i].Val)
		if t.verdicts(set) {
			var err error
			if values[i], err = verdictOf(list[i].Val); err != nil {
				return nil, err
			}
		}
	}
	return values, nil
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

// apply makes a change, and once more from what the kernel really has if that
// is not what was remembered.
func (t *table) apply(c forward.Change, complete bool) error {
	touched := map[place]bool{}
	t.suspect(c, complete)
	if complete {
		t.begin(c, touched)
	}
	for front, e := range c.Fronts {
		if !t.has(front.Addr) {
			continue
		}
		if _, hides := t.pinned[front]; hides {
			t.hidden[front] = e
			continue
		}
		t.set(front, e, touched)
	}
	for a, there := range c.Virtual {
		t.list(setVirtual, a, there, touched)
	}
	for a, there := range c.Hairpin {
		if t.hairpin[a] = there; !there {
			delete(t.hairpin, a)
		}
		t.list(setHairpin, a, there || t.pinnedAt(a), touched)
	}
	if err := t.program(touched); err != nil && !t.kernel.complete {
		return err
	} else if err != nil {
		t.kernel.cfg.Log.Warn("the kernel refuses a change of service rules; read again", "err", err)
		if err := t.repair(); err != nil {
			return err
		}
	}
	return t.forget()
}

// begin forgets what a change does not name.
func (t *table) begin(c forward.Change, touched map[place]bool) {
	for front := range t.fronts {
		_, named := c.Fronts[front]
		if _, hides := t.pinned[front]; !named && !hides {
			t.set(front, nil, touched)
		}
	}
	for at := range t.have {
		touched[at] = true
	}
	maps.DeleteFunc(t.want, func(at place, _ string) bool { return at.set == setVirtual || at.set == setHairpin })
	clear(t.hidden)
	clear(t.hairpin)
	for _, p := range t.pinned {
		t.listBackends(p.Entry, true, touched)
	}
}

// list writes whether an address shall be in a set.
func (t *table) list(set string, a netip.Addr, there bool, touched map[place]bool) {
	if !t.has(a) {
		return
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

// pin makes an owner's fronts these.
func (t *table) pin(owner string, fronts map[forward.Front]*forward.Entry) error {
	touched := map[place]bool{}
	changed := forward.NewChange()
	for front, p := range t.pinned {
		if _, stays := fronts[front]; p.owner != owner || stays {
			continue
		}
		delete(t.pinned, front)
		t.listBackends(p.Entry, false, touched)
		t.set(front, t.hidden[front], touched)
		delete(t.hidden, front)
		changed.Fronts[front] = nil
	}
	for front, e := range fronts {
		if !t.has(front.Addr) {
			continue
		}
		if has, ok := t.fronts[front]; ok && t.pinned[front].Entry == nil {
			t.hidden[front] = has.entry
		}
		t.pinned[front] = pinned{owner, e}
		t.set(front, e, touched)
		t.listBackends(e, true, touched)
		changed.Fronts[front] = e
	}
	t.suspect(changed, false)
	if err := t.program(touched); err != nil {
		return err
	}
	return t.forget()
}

// listBackends notes that a pod with a port of the machine may reach itself by it.
func (t *table) listBackends(e *forward.Entry, there bool, touched map[place]bool) {
	for _, b := range e.Inside.Backends {
		t.list(setHairpin, b.Addr(), there || t.hairpin[b.Addr()] || t.pinnedAt(b.Addr()), touched)
	}
}

// pinnedAt tells whether an address is one that a pinned front goes to.
func (t *table) pinnedAt(a netip.Addr) bool {
	for _, p := range t.pinned {
		if slices.ContainsFunc(p.Inside.Backends, func(b netip.AddrPort) bool { return b.Addr() == a }) {
			return true
		}
	}
	return false
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
	return t.tidy()
}

// tidy does what is left where the kernel's elements are right.
func (t *table) tidy() error { return errors.Join(t.sweep(), t.forget()) }
