package guest

import "github.com/berth-dev/berth/sdk/json"

// Counter counts something for /metrics, where it stands as
// berth_policy_counter_total with the policy's and its own name as labels. It
// counts what guests do: answers that the host remembers are not asked for
// again, so decisions are better counted by the host's own figures.
type Counter struct{ index uint32 }

type counterInfo struct{ name, help string }

var counters []counterInfo

// NewCounter declares a counter of the module: small letters, digits and '_'
// in its name, one sentence of help. Call it from a package variable or from
// init; a module has 32 of them at most.
//
//	var strange = sdk.NewCounter("strange_annotations", "Annotations that are no number.")
func NewCounter(name, help string) Counter {
	counters = append(counters, counterInfo{name, help})
	return Counter{uint32(len(counters) - 1)}
}

// Add counts n more.
func (c Counter) Add(n uint32) { count(c.index, n) }

func counterList(j *json.Writer) {
	if len(counters) == 0 {
		return
	}
	j.Key("counters").Open('[')
	for _, c := range counters {
		j.Open('{').Key("name").Text(c.name).Member("help", c.help).Close('}')
	}
	j.Close(']')
}
