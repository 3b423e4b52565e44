package oracle

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/builtin/builtintest"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/oracletest/invent"
)

// TestTheWholeProfileDecidesAsKubeSchedulerDoes walks all cases through the
// profile that Berth ships, by the guests that it carries, as a host loads and
// runs them: verdicts, raw and normalised scores, totals, the feasible set, the
// best set, and what the engine picks. Beside the cases that were given there
// are clusters made up by seed, which hold what those lack; kube-scheduler itself
// is asked in host/schedule/oracletest/kubescheduler, about very many more.
func TestTheWholeProfileDecidesAsKubeSchedulerDoes(t *testing.T) {
	t.Parallel()
	host := builtintest.Open(t)
	for _, theme := range themes {
		t.Run(theme, func(t *testing.T) {
			for _, c := range load(t, theme) {
				agree(t, host, c)
			}
		})
	}
	t.Run("made up", func(t *testing.T) {
		data, err := os.ReadFile("testdata/invented.answers.b64")
		if err != nil {
			t.Fatal(err)
		}
		cases, err := invent.Unpack(data)
		if err != nil || len(cases) != invent.Kept {
			t.Fatalf("%d cases: %v", len(cases), err)
		}
		for _, c := range cases {
			agree(t, host, c)
		}
	})
	t.Run("no plugin is forgotten", func(t *testing.T) { complete(t, host) })
}

func agree(t *testing.T, host *builtintest.Host, c *oracletest.Case) {
	t.Helper()
	p, release := host.Open(t, oracletest.ProfileName)
	defer release()
	found, err := oracletest.KubeScheduler(p, host.Reasons).Compare(t.Context(), c)
	if err != nil || len(found) > 0 {
		t.Errorf("differences: %v\n%s", err, strings.Join(found, "\n"))
	}
}

// complete holds the map of plugins to policies against what kube-scheduler ran,
// and against the profile.
func complete(t *testing.T, host *builtintest.Host) {
	p, release := host.Open(t, oracletest.ProfileName)
	defer release()
	a := load(t, "mixed")[0].Answers[0]
	for _, plugin := range a.FilterOrder {
		if oracletest.Filters[plugin] == nil && !slices.Contains(oracletest.LeftOut, plugin) {
			t.Errorf("no policy stands for the filter %s", plugin)
		}
	}
	var filtering, scoring []string
	for _, plugin := range a.FilterOrder {
		filtering = append(filtering, oracletest.Filters[plugin]...)
	}
	for _, plugin := range a.ScoreOrder {
		if policy, ok := oracletest.Scores[plugin.Name]; ok {
			scoring = append(scoring, policy)
			continue
		}
		if !slices.Contains(oracletest.LeftOut, plugin.Name) && !slices.Contains(oracletest.Silent, plugin.Name) {
			t.Errorf("no policy stands for the score %s", plugin.Name)
		}
	}
	if len(p.Predicates) != len(filtering) || len(p.Priorities) != len(scoring) {
		t.Errorf("the profile has %d predicates and %d priorities, want %d and %d", len(p.Predicates), len(p.Priorities), len(filtering), len(scoring))
	}
	sameOrderAndWeights(t, p, &a, filtering)
}

func sameOrderAndWeights(t *testing.T, p *framework.Profile, a *oracletest.Answer, filtering []string) {
	t.Helper()
	for i, one := range p.Predicates {
		if i >= len(filtering) || one.Policy.Info().Name != filtering[i] {
			t.Errorf("predicate %d is %s, want the order %v", i, one.Policy.Info().Name, filtering)
		}
	}
	for _, one := range p.Priorities {
		name := one.Policy.Info().Name
		at := slices.IndexFunc(a.ScoreOrder, func(s oracletest.ScorePlugin) bool { return oracletest.Scores[s.Name] == name })
		if at < 0 || a.ScoreOrder[at].Weight != one.Weight {
			t.Errorf("%s weighs %d, want kube-scheduler's %v", name, one.Weight, a.ScoreOrder)
		}
	}
}
