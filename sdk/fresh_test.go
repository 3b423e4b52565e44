package sdk

import (
	"testing"
	"time"

	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/json"
)

type limit struct{ most int64 }

func (l *limit) Configure(c Config) (err error) {
	l.most, err = c.Int("most", 0, 100, 7)
	return err
}

func (l *limit) Check(_ int64, pod *gate.Pod) gate.Readiness {
	return gate.Readiness{Status: facts.True, RequeueAfter: time.Duration(l.most)}
}

func (l *limit) Filter(*Pod, *Node) Verdict { return Admit }

// Each instance has settings of its own, though one value is registered.
func TestInstancesDoNotShareSettings(t *testing.T) {
	t.Parallel()
	for _, impl := range []*limit{{}, {most: 3}} {
		a, b := fresh(impl), fresh(impl)
		if err := a.Configure(mustConfig(t, `{"most":1}`)); err != nil {
			t.Fatal(err)
		}
		if b.most != impl.most || a.most != 1 {
			t.Errorf("one instance's setting %d shows in the other's %d", a.most, b.most)
		}
	}
	if v := fresh(value(3)); v != 3 {
		t.Errorf("fresh(3) = %d", v)
	}
}

type value int

func mustConfig(t *testing.T, text string) Config {
	t.Helper()
	c, err := json.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}
