// Command energy-aware prefers nodes that need little power for the CPU that a
// pod asks for. A node says how much by its annotation, in watts for each CPU.
package main

import (
	"strconv"

	"github.com/berth-dev/berth/sdk"
)

// unknown are the watts of a node that does not say.
const unknown = 20

type energyAware struct{ annotation string }

func (e *energyAware) Configure(c sdk.Config) error {
	e.annotation = c.String("annotation", "energy.example.test/watts-per-cpu")
	return c.OnlyKeys("annotation")
}

// Score is the power in milliwatts; the host turns it round, so that the
// hungriest node is worth 0.
func (e *energyAware) Score(pod *sdk.Pod, node *sdk.Node) int64 {
	watts, err := strconv.ParseInt(node.Annotation(e.annotation), 10, 64)
	if err != nil || watts < 0 || watts > 10_000 {
		watts = unknown
	}
	return watts * min(pod.NonZero.MilliCPU, 1_000_000)
}

func init() {
	sdk.Priority("EnergyAware", &energyAware{}, sdk.Reads(sdk.PodRequests|sdk.NodeAnnotations),
		sdk.Normalize(sdk.NormalizeMaxReversed), sdk.Describe("Prefers nodes that need little power for each CPU."))
}

func main() {}
