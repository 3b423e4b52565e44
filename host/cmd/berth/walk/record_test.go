package walk_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
)

// TestAKilledHostsDecisionsAreReplayed kills a host that records, and derives
// again what it had decided before; new decisions take numbers of their own.
func TestAKilledHostsDecisionsAreReplayed(t *testing.T) {
	t.Parallel()
	kept := t.TempDir()
	c := newCluster(t, "--listen", "127.0.0.1:0", "--agent", "none", "--simulate", "3", "--record", kept)
	rounds, of := 2, map[string]string{} // pods by the numbers of their decisions
	if campaign() {
		rounds = 20
	}
	for round := range rounds {
		for i := range 8 {
			name := fmt.Sprintf("r%d-%d", round, i)
			c.submit(t, smallPod(name, nil))
			number := c.decision(t, name)
			if was, taken := of[number]; taken {
				t.Fatalf("decision %s was about %s, and now is about %s", number, was, name)
			}
			of[number] = name
			eventually(t, "the decision about "+name+" is on disk", func() bool { return recorded(t, kept, name) })
		}
		c.kill()
		c.start()
	}
	for number, name := range of {
		var again struct {
			Pod, Node, Again, Note string
			Same                   bool
		}
		if err := json.Unmarshal([]byte(c.must(t, binary, "replay", number, "-o", "json")), &again); err != nil {
			t.Fatal(err)
		}
		if node := c.pod(t, name).Spec.NodeName; !again.Same || again.Pod != name || again.Node != node || again.Again != node {
			t.Errorf("decision %s, about %s on %s, is derived again as %+v", number, name, node, again)
		}
	}
}

// decision is the number of the decision that placed a pod.
func (c *cluster) decision(t *testing.T, name string) string {
	t.Helper()
	c.awaitPod(t, name, "has a node", func(p *v1.Pod) bool { return p.Spec.NodeName != "" })
	report := c.report(t, name)
	if report.Decision == nil {
		t.Fatalf("nothing tells which decision placed %s", name)
	}
	return strconv.FormatUint(report.Decision.Number, 10)
}

// recorded looks for a pod's decision in the recording.
func recorded(t *testing.T, dir, pod string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "decisions", "*"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if strings.HasPrefix(line, `{"kind":"decision"`) && strings.Contains(line, `"`+pod+`"`) && strings.HasSuffix(line, "\n") {
				return true
			}
		}
	}
	return false
}
