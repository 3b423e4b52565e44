package kubescheduler_test

import (
	"os"
	"strings"
	"testing"

	"github.com/berth-dev/berth/host/policy/builtin/builtintest"
	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/oracletest/invent"
	"github.com/berth-dev/berth/host/schedule/oracletest/kubescheduler"
)

// seeds are how many cases are made up: hundreds, or very many in a campaign.
func seeds() uint64 {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		return 20_000
	}
	return 300
}

func TestMadeUpClustersAgree(t *testing.T) {
	host := builtintest.Open(t)
	differing := 0
	for seed := range seeds() {
		c := invent.Case(seed)
		var err error
		if c.Answers, err = kubescheduler.Answer(t.Context(), c); err != nil {
			t.Errorf("kube-scheduler: %v", err)
			continue
		}
		p, release := host.Open(t, oracletest.ProfileName)
		found, err := oracletest.KubeScheduler(p, host.Reasons).Compare(t.Context(), c)
		release()
		if err != nil || len(found) > 0 {
			t.Errorf("seed %d: %v\n%s", seed, err, strings.Join(found, "\n"))
			if differing++; differing == 50 {
				t.Fatal("too many differ")
			}
		}
	}
}
