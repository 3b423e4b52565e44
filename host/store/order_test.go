package store_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/storetest"
)

func valued() store.Options {
	return store.Options{Indexes: map[string]map[string]store.IndexFunc{"configmaps": {"value": func(o store.Object) []string {
		return []string{value(o)}
	}}}}
}

// Objects that are made, changed, removed and made again many times between two
// reads are put in order as if each change had been.
func TestAListAfterManyChangesShowsTheLast(t *testing.T) {
	t.Parallel()
	s, rnd, model := storetest.Open(t, valued()), rand.New(rand.NewPCG(1, 2)), map[string]string{}
	for _, changes := range []int{1, 2, 10, 300, 2500, 1024, 1025, 7} {
		for i := range changes {
			name, value := fmt.Sprint("x", rnd.IntN(200)), fmt.Sprint(rnd.IntN(5))
			_, there := model[name]
			switch {
			case !there:
				commit(t, s, create(name, value))
				model[name] = value
			case i%3 == 0:
				commit(t, s, remove(name))
				delete(model, name)
			default:
				commit(t, s, update(name, value, 0))
				model[name] = value
			}
		}
		checkOrder(t, s, model)
	}
}

func checkOrder(t *testing.T, s *store.Store, model map[string]string) {
	t.Helper()
	list, err := s.List("configmaps", "", store.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	byValue := map[string][]string{}
	for _, o := range list.Items {
		names = append(names, o.GetName())
		byValue[value(o)] = append(byValue[value(o)], o.GetName())
	}
	if diff := cmp.Diff(slices.Sorted(maps.Keys(model)), names); diff != "" {
		t.Fatalf("names (-want +got):\n%s", diff)
	}
	for i := range 5 {
		var found []string
		for _, o := range s.Indexed("configmaps", "value", fmt.Sprint(i)) {
			found = append(found, o.GetName())
			if model[o.GetName()] != fmt.Sprint(i) {
				t.Errorf("%s is indexed under %d, want %s", o.GetName(), i, model[o.GetName()])
			}
		}
		if diff := cmp.Diff(byValue[fmt.Sprint(i)], found); diff != "" {
			t.Errorf("indexed under %d (-want +got):\n%s", i, diff)
		}
	}
}

// Whoever has seen a write answered finds it in the next list, however many
// others list meanwhile.
func TestListsWhileOthersWriteHoldWhatWasAnswered(t *testing.T) {
	t.Parallel()
	s := storetest.Open(t, valued())
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := range 200 {
				name := fmt.Sprintf("x%d-%d", w, i)
				rev, _, err := s.Commit(t.Context(), create(name, fmt.Sprint(w)))
				if err != nil {
					t.Error(err)
					return
				}
				list, err := s.List("configmaps", "", store.ListOptions{})
				if err != nil || list.Revision < rev {
					t.Errorf("a list after revision %d is at %d: %v", rev, list.Revision, err)
				}
				if !slices.ContainsFunc(list.Items, func(o store.Object) bool { return o.GetName() == name }) {
					t.Errorf("%s is not in the list after it was made", name)
				}
				if n := len(s.Indexed("configmaps", "value", fmt.Sprint(w))); n != i+1 {
					t.Errorf("%d objects are indexed after %d were made", n, i+1)
				}
			}
		})
	}
	writers.Wait()
}
