package deptest

import (
	"fmt"
	"maps"
	"slices"
	"testing"
)

// floors are the rooms of host/policy from the top: each imports only what lies
// below it. The doc of package policy tells what is on which.
var floors = [][]string{
	{"host/policy/builtin/builtintest"},
	{"host/policy/builtin", "host/policy/table"},
	{"host/policy"},
	{"host/policy/trial"},
	{"host/policy/module", "host/policy/rollout", "host/policy/sandbox"},
	{"host/policy/engine/enginetest/compiler", "host/policy/engine/enginetest/subverted", "host/policy/policytest"},
	{"host/policy/engine", "host/policy/engine/enginetest", "host/policy/wire"},
	{"host/policy/engine/confine", "host/policy/vet/wasmtest"},
	{"host/policy/breaker", "host/policy/build", "host/policy/scaffold", "host/policy/schema", "host/policy/v1alpha1", "host/policy/vet"},
}

func TestArrowsWithinPolicyRunDownwards(t *testing.T) {
	t.Parallel()
	arrows := map[string][]string{}
	for _, p := range list(t) {
		folder, ours := within(p.ImportPath)
		if !ours || !under(folder, []string{"host/policy"}) {
			continue
		}
		arrows[folder] = nil
		for _, path := range p.Imports {
			if target, ours := within(path); ours && under(target, []string{"host/policy"}) {
				arrows[folder] = append(arrows[folder], target)
			}
		}
	}
	for _, problem := range upwards(arrows, floors) {
		t.Error(problem)
	}
}

// upwards returns a sentence for each arrow that does not run downwards, and for
// each room that is on no floor.
func upwards(arrows map[string][]string, floors [][]string) (problems []string) {
	floor := map[string]int{}
	for i, rooms := range floors {
		for _, room := range rooms {
			floor[room] = i + 1
		}
	}
	for _, from := range slices.Sorted(maps.Keys(arrows)) {
		if floor[from] == 0 {
			problems = append(problems, from+" is on no floor")
			continue
		}
		for _, to := range arrows[from] {
			if floor[to] <= floor[from] {
				problems = append(problems, fmt.Sprintf("%s imports %s, which does not lie below it", from, to))
			}
		}
	}
	return problems
}

func TestAnArrowThatRunsUpIsFound(t *testing.T) {
	t.Parallel()
	got := upwards(map[string][]string{"top": {"below"}, "below": {"top"}, "beside": {"below"}, "cellar": nil}, [][]string{{"top"}, {"below", "beside"}})
	want := []string{"below imports top, which does not lie below it", "beside imports below, which does not lie below it", "cellar is on no floor"}
	if !slices.Equal(got, want) {
		t.Errorf("upwards = %q, want %q", got, want)
	}
}
