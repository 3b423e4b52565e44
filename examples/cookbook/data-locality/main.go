// Command data-locality draws pods to the zones that hold their data, named by
// an annotation: "data.example.test/zones: a,b", the nearest first.
package main

import (
	"strings"

	"github.com/berth-dev/berth/sdk"
)

type dataLocality struct{ annotation, label string }

func (d *dataLocality) Configure(c sdk.Config) error {
	d.annotation = c.String("annotation", "data.example.test/zones")
	d.label = c.String("label", "topology.kubernetes.io/zone")
	return c.OnlyKeys("annotation", "label")
}

// Score gives the first zone 100, and each further one half of the one before.
func (d *dataLocality) Score(pod *sdk.Pod, node *sdk.Node) int64 {
	zone, rest := node.Label(d.label), pod.Annotation(d.annotation)
	if zone == "" {
		return 0
	}
	for score := int64(sdk.MaxNodeScore); rest != "" && score > 0; score /= 2 {
		var first string
		if first, rest, _ = strings.Cut(rest, ","); strings.TrimSpace(first) == zone {
			return score
		}
	}
	return 0
}

func init() {
	sdk.Priority("DataLocality", &dataLocality{}, sdk.Reads(sdk.PodAnnotations|sdk.NodeLabels),
		sdk.Describe("Prefers zones that hold the pod's data."))
}

func main() {}
