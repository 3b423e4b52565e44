package usage

import (
	"context"
	"log/slog"
	"testing"

	"github.com/berth-dev/berth/host/store"
)

// FuzzReports has a node's agent tell anything, twice.
func FuzzReports(f *testing.F) {
	f.Add([]byte(`{"node":{"nodeName":"n","cpu":{"time":"2026-01-01T00:00:00Z","usageCoreNanoSeconds":5},"memory":{"workingSetBytes":7}},"pods":[{"podRef":{"name":"p","uid":"u"},"containers":[{"name":"c","cpu":{"usageCoreNanoSeconds":1}}]}]}`),
		[]byte(`{"node":{"cpu":{"time":"2026-01-01T00:00:10Z","usageCoreNanoSeconds":18446744073709551615}},"pods":[{"podRef":{"uid":"u"},"containers":[{"name":"c"},{"name":"c"}]}]}`))
	f.Add([]byte(`{"node":{"cpu":{"time":"2026-01-01T00:00:00Z","usageCoreNanoSeconds":0},"memory":{"workingSetBytes":0}}}`),
		[]byte(`{"node":{"cpu":{"time":"2026-01-01T00:00:01Z","usageCoreNanoSeconds":18446744073709551615},"memory":{"workingSetBytes":18446744073709551615}}}`))
	f.Add([]byte("null"), []byte("[]"))
	f.Fuzz(func(t *testing.T, former, latest []byte) {
		answers := [][]byte{former, latest}
		m := New(&cluster{objects: []store.Object{node("n", 1)}}, func(context.Context, string, string) ([]byte, error) {
			answer := answers[0]
			answers = answers[1:]
			return answer, nil
		}, slog.New(slog.DiscardHandler))
		m.report(t.Context(), "n")
		m.report(t.Context(), "n")
		nodes, err := m.NodeMetrics(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		pods, err := m.PodMetrics(t.Context(), "")
		if err != nil {
			t.Fatal(err)
		}
		for _, n := range nodes {
			if n.Window.Duration <= 0 || n.Usage.Cpu().Sign() < 0 || n.Usage.Memory().Sign() < 0 {
				t.Errorf("node %s uses %v in %v", n.Name, n.Usage, n.Window)
			}
		}
		for _, p := range pods {
			for _, c := range p.Containers {
				if c.Usage.Cpu().Sign() < 0 || c.Usage.Memory().Sign() < 0 {
					t.Errorf("container %s of pod %s uses %v", c.Name, p.Name, c.Usage)
				}
			}
		}
	})
}
