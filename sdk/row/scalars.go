package row

import "github.com/berth-dev/berth/sdk/facts"

// scalarColumn is what rows have of one extended resource, by slot.
type scalarColumn struct {
	name   facts.Symbol
	values []int64
}

// scalarColumns stand beside lists of scalars where simple faces ask by name. They
// are made as rows come, and not when somebody asks: a guest may collect garbage
// for a piece of memory of this size, which is not to happen in a decision.
// Resources that come after MaxAsked others are looked up in the lists.
type scalarColumns []scalarColumn

// of is the column of a resource, nil if it has none.
func (s scalarColumns) of(name facts.Symbol) []int64 {
	for i := range s {
		if s[i].name == name {
			return s[i].values
		}
	}
	return nil
}

// all says whether no row has a resource without a column.
func (s scalarColumns) all() bool { return len(s) < facts.MaxAsked }

// follow takes over what a row has now.
func (s *scalarColumns) follow(slot int32, scalars []facts.Scalar, rows, room int) {
	for i := range *s {
		(*s)[i].values[slot] = 0
	}
	for _, scalar := range scalars {
		values := s.of(scalar.Name)
		if values == nil {
			if len(*s) == facts.MaxAsked {
				continue
			}
			values = make([]int64, rows, room)
			*s = append(*s, scalarColumn{scalar.Name, values})
		}
		values[slot] = scalar.Value
	}
}

func (s scalarColumns) grow(n, size int) {
	for i := range s {
		s[i].values = growTo(s[i].values, n, size)
	}
}

// amounts are what rows have of all resources, or what their pods ask.
type amounts struct {
	columns *Columns
	lists   [][]facts.Scalar
	scalars scalarColumns
}

// column is that of a resource, nil if only the lists have it.
func (a *amounts) column(of *facts.Name) []int64 {
	if i, ok := of.Column(); ok {
		return a.columns.column(i)
	}
	return a.scalars.of(of.Symbol())
}

func (r *Table) allocatable() amounts {
	return amounts{&r.Allocatable, r.AllocatableScalars, r.allocatableScalars}
}

func (r *Table) requested() amounts {
	return amounts{&r.Requested, r.RequestedScalars, r.requestedScalars}
}

// followScalars takes the lists of a row over into columns, if there are any.
func (r *Table) followScalars(slot int32) {
	if !r.named {
		return
	}
	if r.AllocatableScalars != nil {
		r.allocatableScalars.follow(slot, r.AllocatableScalars[slot], len(r.Live), cap(r.Live))
	}
	if r.RequestedScalars != nil {
		r.requestedScalars.follow(slot, r.RequestedScalars[slot], len(r.Live), cap(r.Live))
	}
}
