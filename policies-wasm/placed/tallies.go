package placed

// tallies finds tallies by their hash. It is no map, nor is any other table by
// hashes here: TinyGo's collector takes a map's keys for pointers, and of numbers
// as random as hashes many point somewhere. What they point to stays, and for each
// one the collector looks for the head of a table of megabytes.
type tallies struct {
	heads []*Tally // the first of each chain; a power of two long
}

// first is the first tally whose hash is like h.
func (l *tallies) first(h uint64) *Tally {
	if len(l.heads) == 0 {
		return nil
	}
	return l.heads[h&uint64(len(l.heads)-1)]
}

// add adds a tally to all those that are there.
func (l *tallies) add(t *Tally, all []*Tally) {
	if len(all) >= len(l.heads) {
		l.heads = make([]*Tally, max(2*len(l.heads), minHashes))
		for _, other := range all {
			l.chain(other)
		}
	}
	l.chain(t)
}

func (l *tallies) chain(t *Tally) {
	first := &l.heads[t.hash&uint64(len(l.heads)-1)]
	t.next, *first = *first, t
}

func (l *tallies) remove(t *Tally) {
	at := &l.heads[t.hash&uint64(len(l.heads)-1)]
	for *at != t {
		at = &(*at).next
	}
	*at, t.next = t.next, nil
}
