package console

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/store"
)

// maxExamples is how many events a fold names.
const maxExamples = 5

const eventsResource = "events"

// eventRow is what is shown of an Event.
type eventRow struct {
	kind, object, reason, message, about string
	count                                int64
	last                                 time.Time
}

func eventOf(_ string, o store.Object) eventRow {
	e, ok := o.(*v1.Event)
	if !ok {
		return eventRow{}
	}
	object := e.InvolvedObject.Kind + "/" + e.InvolvedObject.Namespace + "/" + e.InvolvedObject.Name
	if e.InvolvedObject.Namespace == "" {
		object = e.InvolvedObject.Kind + "/" + e.InvolvedObject.Name
	}
	row := eventRow{kind: e.Type, object: object, about: e.InvolvedObject.Kind, reason: e.Reason, message: e.Message, count: int64(max(e.Count, 1)), last: e.LastTimestamp.Time}
	if e.Series != nil {
		row.count, row.last = int64(e.Series.Count), e.Series.LastObservedTime.Time
	}
	for _, at := range []time.Time{e.EventTime.Time, e.CreationTimestamp.Time} {
		if row.last.IsZero() {
			row.last = at
		}
	}
	return row
}

// events are what was told of objects, folded by reason.
type events struct {
	of      *following[eventRow]
	filter  string
	version int64
	seen    visible
}

type eventsFrame struct {
	Folds []fold `json:"folds"`
	// Count is how often something was told, Left how many folds are left out.
	Count int64 `json:"count"`
	Left  int   `json:"left,omitempty"`
}

// fold is what was told for the same reason of objects of the same kind.
type fold struct {
	Type   string `json:"type"`
	Reason string `json:"reason"`
	About  string `json:"about"`
	Count  int64  `json:"count"`
	// Objects is of how many.
	Objects int   `json:"objects"`
	Last    int64 `json:"last"`
	// Newest are the last of them.
	Newest []foldedEvent `json:"newest"`

	objects map[string]bool
}

type foldedEvent struct {
	Object  string `json:"object"`
	Message string `json:"message"`
	Count   int64  `json:"count"`
	Last    int64  `json:"last"`
}

func (v *events) frame(ctx context.Context, r rights) (any, error) {
	of := listable(r, eventsResource)
	if !of.same(v.seen) {
		v.version = -1
	}
	f, folds := &eventsFrame{Folds: []fold{}}, map[[3]string]*fold{}
	version, err := v.of.each(ctx, v.version, func(key store.Key, e eventRow) {
		if !of.in(key.Namespace) || !strings.Contains(e.object, v.filter) {
			return
		}
		f.Count += e.count
		name := [3]string{e.kind, e.reason, e.about}
		if folds[name] == nil {
			folds[name] = &fold{Type: e.kind, Reason: e.reason, About: e.about, objects: map[string]bool{}}
		}
		folds[name].add(e)
	})
	if err != nil || version == v.version {
		return nil, err
	}
	v.version, v.seen = version, of
	all := slices.SortedFunc(maps.Values(folds), func(a, b *fold) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), strings.Compare(a.Reason, b.Reason), strings.Compare(a.About, b.About), strings.Compare(a.Type, b.Type))
	})
	for i, one := range all {
		if i == maxGroups {
			f.Left = len(all) - i
			break
		}
		f.Folds = append(f.Folds, *one)
	}
	return f, nil
}

func (f *fold) add(e eventRow) {
	f.objects[e.object] = true
	f.Objects = len(f.objects)
	f.Count += e.count
	f.Last = max(f.Last, e.last.UnixMilli())
	one := foldedEvent{e.object, e.message, e.count, e.last.UnixMilli()}
	at, _ := slices.BinarySearchFunc(f.Newest, one, func(a, b foldedEvent) int {
		return cmp.Or(cmp.Compare(b.Last, a.Last), strings.Compare(a.Object, b.Object), strings.Compare(a.Message, b.Message))
	})
	f.Newest = slices.Insert(f.Newest, at, one)
	f.Newest = f.Newest[:min(len(f.Newest), maxExamples)]
}
