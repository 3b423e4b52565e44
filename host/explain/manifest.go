package explain

import (
	"bufio"
	"errors"
	"fmt"
	"io"

	v1 "k8s.io/api/core/v1"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// ReadPods reads a manifest of pods that are to be planned, in YAML or JSON: each of
// its documents is a Pod or a list of pods.
func ReadPods(r io.Reader) ([]v1.Pod, error) {
	var pods []v1.Pod
	documents := utilyaml.NewYAMLReader(bufio.NewReader(r))
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
