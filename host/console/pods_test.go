package console

import (
	"strings"
	"testing"
)

func TestManifestsThatArePlannedHere(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name, text string
		pods       int
		wrong      string
	}{
		{"as many pods as are planned here", strings.Repeat("---\nkind: Pod\n", maxPods), maxPods, ""},
		{"more", strings.Repeat("---\nkind: Pod\n", maxPods+1), 0, "501 pods"},
		{"no pods", "kind: Deployment", 0, "it is a Deployment"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pods, err := manifest([]byte(tt.text))
			if len(pods) != tt.pods || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("manifest = %d pods, %v, want %d, %q", len(pods), err, tt.pods, tt.wrong)
			}
		})
	}
}
