package explain

import (
	"bytes"
	"strings"
	"testing"
)

func TestManifestsOfPods(t *testing.T) {
	t.Parallel()
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {containers: [{name: c, image: x}]}}"
	for _, tt := range []struct {
		name, text string
		pods       int
		wrong      string
	}{
		{"a pod", pod, 1, ""},
		{"documents, of which one is a comment", "---\n# two pods\n---\n" + pod + "\n---\n" + pod, 2, ""},
		{"a list", "{apiVersion: v1, kind: List, items: [" + pod + "," + pod + "]}", 2, ""},
		{"JSON", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`, 1, ""},
		{"nothing", "", 0, "it holds no pods"},
		{"a Deployment", "kind: Deployment", 0, "document 1: it is a Deployment: a plan is for pods"},
		{"a field that no pod has", "{kind: Pod, spec: {containres: []}}", 0, "unknown field"},
		{"no kind", "a: b", 0, "it has no kind"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			pods, err := ReadPods(strings.NewReader(tt.text))
			if len(pods) != tt.pods || (err == nil) != (tt.wrong == "") || err != nil && !strings.Contains(err.Error(), tt.wrong) {
				t.Errorf("ReadPods = %d pods, %v, want %d, %q", len(pods), err, tt.pods, tt.wrong)
			}
		})
	}
}

func FuzzReadPods(f *testing.F) {
	f.Add([]byte("kind: Pod\n---\nkind: List\nitems: [{}]"))
	f.Add([]byte("{]"))
	f.Fuzz(func(t *testing.T, data []byte) {
		pods, err := ReadPods(bytes.NewReader(data))
		if err == nil && len(pods) == 0 {
			t.Error("no pods are taken for a plan")
		}
	})
}
