package console

import (
	"bytes"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/host/explain"
)

// A manifest that is planned has at most so many bytes and pods: the pages have each
// pod completed by the API before it is planned.
const (
	maxManifest = 1 << 20
	maxPods     = 500
)

// pods answers POST /console/v1/pods, a manifest in YAML or JSON, with its pods. It
// reads what it is given and nothing else.
func (c *Console) pods(w http.ResponseWriter, r *http.Request) {
	data, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxManifest))
	if err != nil {
		http.Error(w, "a manifest that is planned here has at most 1 MiB: `berth plan -f FILE` takes larger ones", http.StatusRequestEntityTooLarge)
		return
	}
	pods, err := manifest(data)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	answer(w, map[string]any{"items": pods})
}

// manifest reads the pods of one.
func manifest(data []byte) ([]v1.Pod, error) {
	pods, err := explain.ReadPods(bytes.NewReader(data))
	if len(pods) > maxPods {
		return nil, fmt.Errorf("it holds %d pods, and %d are planned here at most: `berth plan -f FILE` takes more", len(pods), maxPods)
	}
	return pods, err
}
