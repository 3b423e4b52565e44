package console

import (
	"context"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/store"
)

// tableRow is a row that a table may show.
type tableRow interface {
	named() string
}

// table is a view of rows that are made of objects' parts, of which a user sees those
// in namespaces where he may list their resource.
type table[P any, T tableRow] struct {
	of     *following[P]
	rows   func([]P) []T
	before func(a, b T) int
	// filter is a part of the names that are shown, chosen the name of the row
	// that is shown whether it is among them or not.
	filter, chosen string

	version int64
	seen    []visible
}

// tableFrame is a table as it is.
type tableFrame[T tableRow] struct {
	Rows []T `json:"rows"`
	// All is how many there are, Left how many of those that match are left out.
	All  int `json:"all"`
	Left int `json:"left,omitempty"`
	// Chosen is the one that was asked for, if it is there.
	Chosen *T `json:"chosen,omitempty"`
}

func (t *table[P, T]) frame(ctx context.Context, r rights) (any, error) {
	lists := map[string]visible{}
	var now []visible
	for _, resource := range t.of.resources {
		lists[resource] = listable(r, resource)
		now = append(now, lists[resource])
	}
	if !slices.EqualFunc(now, t.seen, visible.same) {
		t.version = -1
	}
	var parts []P
	version, err := t.of.each(ctx, t.version, func(key store.Key, part P) {
		if lists[key.Resource].in(key.Namespace) {
			parts = append(parts, part)
		}
	})
	if err != nil || version == t.version {
		return nil, err
	}
	t.version, t.seen = version, now
	f := &tableFrame[T]{Rows: []T{}}
	for _, row := range t.rows(parts) {
		f.All++
		if strings.Contains(row.named(), t.filter) {
			f.Rows = append(f.Rows, row)
		}
		if row.named() == t.chosen {
			f.Chosen = &row
		}
	}
	slices.SortFunc(f.Rows, t.before)
	f.Left = max(0, len(f.Rows)-maxRows)
	f.Rows = f.Rows[:len(f.Rows)-f.Left]
	return f, nil
}
