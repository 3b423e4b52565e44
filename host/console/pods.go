package console

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
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

// manifest reads all documents of one; each is a Pod or a list of pods.
func manifest(data []byte) ([]v1.Pod, error) {
	var pods []v1.Pod
	documents := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for n := 1; ; n++ {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			pods, err = appendPods(pods, document)
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", n, err)
		}
	}
	if len(pods) == 0 {
		return nil, errors.New("it holds no pods")
	}
	if len(pods) > maxPods {
		return nil, fmt.Errorf("it holds %d pods, and %d are planned here at most: `berth plan -f FILE` takes more", len(pods), maxPods)
	}
	return pods, nil
}

func appendPods(pods []v1.Pod, document []byte) ([]v1.Pod, error) {
	var head *struct{ Kind string }
	if err := yaml.Unmarshal(document, &head); err != nil || head == nil {
		return pods, err // without anything but comments it adds none
	}
	switch head.Kind {
	case "":
		return nil, errors.New("it has no kind")
	case "Pod":
		var pod v1.Pod
		if err := yaml.UnmarshalStrict(document, &pod); err != nil {
			return nil, err
		}
		return append(pods, pod), nil
	case "List", "PodList":
		var list v1.PodList
		if err := yaml.Unmarshal(document, &list); err != nil {
			return nil, err
		}
		return append(pods, list.Items...), nil
	}
	return nil, fmt.Errorf("it is a %s: a plan is for pods", head.Kind)
}
