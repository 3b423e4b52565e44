package nft

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/forward"
)

func TestAFirewallThatDropsIsTold(t *testing.T) {
	t.Parallel()
	n := newNode(t, 0)
	var told bytes.Buffer
	n.cfg.Log = slog.New(slog.NewTextHandler(&told, nil))
	n.must(t, forward.NewChange(), true)
	for _, step := range []struct {
		do   string
		want bool
	}{
		{"nft add table ip filter", false},
		{"nft add chain ip filter FORWARD { type filter hook forward priority 0; policy drop; }", true},
		{"nft add chain ip filter USER", false}, // told already
		{"nft add rule ip filter FORWARD iifname berth0 accept", false},
		{"nft flush chain ip filter FORWARD", true},
	} {
		told.Reset()
		n.Run(t, step.do)
		if err := n.Repair(); err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(told.String(), "table ip filter, chain FORWARD"); got != step.want {
			t.Errorf("after %q: told %q, want a warning: %v", step.do, &told, step.want)
		}
	}
}
