package store

// ListOptions narrows a list. The zero value lists all at the newest revision.
type ListOptions struct {
	// Revision to show; 0 is the newest.
	Revision int64
	// After is where the page begins: List.After of the page before.
	After string
	// Limit is the largest number of items; 0 is no limit.
	Limit int
	// Match picks the items; nil picks all.
	Match func(Object) bool
}

// List is a page: the objects by namespace and name, all at one revision.
type List struct {
	Items    []Object
	Revision int64
	// More says that the page is not the last; After leads to the next, asked
	// at the same Revision. With Match the next may turn out empty: a page ends
	// at its limit, without a search for one more that matches.
	More  bool
	After string
	// Remaining counts what comes after the page; 0 with Match, since nobody
	// knows without looking.
	Remaining int64

	entries []*entry
}

// Shared is Event.Shared for the i-th item: watches and lists share the bytes.
func (l *List) Shared(i int, format string, encode func(Object) ([]byte, error)) ([]byte, error) {
	return l.entries[i].shared(format, l.Items[i], encode)
}

// List shows the resource, in one namespace or in all ("").
//
// # Errors
//
// ErrCompacted if the revision is too old, ErrFuture if it has not come yet.
func (s *Store) List(resourceName, namespace string, opts ListOptions) (List, error) {
	snap, rev, err := s.at(resourceName, opts.Revision)
	if err != nil {
		return List{}, &Error{Key: Key{Resource: resourceName}, Kind: err}
	}
	list := List{Revision: rev}
	if snap == nil {
		return list, nil
	}
	list.fill(snap, namespace, opts)
	r := s.lookup(resourceName)
	if list.More {
		r.pins.add(rev, snap)
	} else if opts.After != "" {
		r.pins.release(rev)
	}
	return list, nil
}

// at returns the state of the resource at rev, and the revision that it stands
// for. The store's revision is read before the snapshot: everything up to it is
// in the snapshot then, and what the snapshot has beyond is in its own.
func (s *Store) at(resourceName string, rev int64) (*snapshot, int64, error) {
	newest := s.Revision()
	r := s.lookup(resourceName)
	if r == nil {
		switch {
		case rev > newest:
			return nil, 0, ErrFuture
		case rev != 0 && rev < s.floor.Load():
			return nil, 0, ErrCompacted
		case rev == 0:
			rev = newest
		}
		return nil, rev, nil
	}
	snap := r.snapshot()
	newest = max(newest, snap.rev)
	switch {
	case rev > newest:
		return nil, 0, ErrFuture
	case rev == 0:
		return snap, newest, nil
	case rev < s.floor.Load():
		return nil, 0, ErrCompacted
	case rev >= snap.rev:
		return snap, rev, nil
	}
	if pinned := r.pins.get(rev); pinned != nil {
		return pinned, rev, nil
	}
	old, ok := r.before(rev)
	if !ok {
		return nil, 0, ErrCompacted
	}
	return old, rev, nil
}

func (l *List) fill(snap *snapshot, namespace string, opts ListOptions) {
	from := startOf(namespace, opts.After)
	if opts.Limit == 0 && opts.Match == nil && namespace == "" {
		l.Items = make([]Object, 0, snap.tree.Len())
		l.entries = make([]*entry, 0, snap.tree.Len())
	}
	snap.tree.AscendGreaterOrEqual(from, func(e *entry) bool {
		if namespace != "" && e.namespace != namespace {
			return false
		}
		if opts.Limit > 0 && len(l.Items) == opts.Limit {
			l.More = true
			l.Remaining++
			return opts.Match == nil
		}
		if obj := e.object(); opts.Match == nil || opts.Match(obj) {
			l.Items = append(l.Items, obj)
			l.entries = append(l.entries, e)
		}
		return true
	})
	if l.More && opts.Match != nil {
		l.Remaining = 0
	}
	if l.More {
		last := l.entries[len(l.entries)-1]
		l.After = last.namespace + "/" + last.name
	}
}
