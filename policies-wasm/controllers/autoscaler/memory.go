package autoscaler

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

// micro is in nanoseconds: times are kept in microseconds, which the numbers of
// JSON hold exactly.
const micro = 1000

// memory is what an autoscaler knows of its past.
type memory struct {
	// at is when it looked last, and spec a hash of the spec that it saw.
	at, spec int64
	// recommended are numbers of replicas before they were stabilized; up and down
	// are by how many it scaled.
	recommended, up, down []sample
}

// sample is a number at a time.
type sample struct{ n, at int64 }

func readMemory(c sdk.Config) memory {
	return memory{
		at: number(c.Object("at"), 0), spec: number(c.Object("spec"), 0),
		recommended: readSamples(c.Object("recommended")), up: readSamples(c.Object("up")), down: readSamples(c.Object("down")),
	}
}

func readSamples(c sdk.Config) (list []sample) {
	for _, s := range c.Items() {
		if pair := s.Items(); len(pair) == 2 {
			list = append(list, sample{number(pair[0], 0), number(pair[1], 0)})
		}
	}
	return list
}

func (m *memory) json() string {
	j := &json.Writer{}
	j.Open('{').Key("at").Int(m.at).Key("spec").Int(m.spec)
	for _, l := range [...]struct {
		key  string
		list []sample
	}{{"recommended", m.recommended}, {"up", m.up}, {"down", m.down}} {
		j.Key(l.key).Open('[')
		for _, s := range l.list {
			j.Open('[').Int(s.n).Int(s.at).Close(']')
		}
		j.Close(']')
	}
	return string(j.Close('}').Bytes())
}

// begin takes what is there for the first recommendation.
func (m *memory) begin(current, now int64) {
	if len(m.recommended) == 0 {
		m.recommended = []sample{{current, now / micro}}
	}
}

// keep adds a sample, in the place of the last that is older than a time.
func keep(list []sample, s sample, before int64) []sample {
	old := -1
	for i := range list {
		if list[i].at < before {
			old = i
		}
	}
	if old < 0 {
		return append(list, s)
	}
	list[old] = s
	return list
}

// scaled keeps by how many the target was scaled, as long as a policy may ask.
func (m *memory) scaled(behavior sdk.Config, from, to, now int64) {
	rules, list, change := behavior.Object("scaleUp"), &m.up, to-from
	if change < 0 {
		rules, list, change = behavior.Object("scaleDown"), &m.down, -change
	}
	var longest int64
	for _, p := range rules.Object("policies").Items() {
		longest = max(longest, number(p.Object("periodSeconds"), 0))
	}
	*list = keep(*list, sample{change, now / micro}, now/micro-longest*1_000_000)
}

// since is how many were scaled within the last seconds.
func since(list []sample, seconds, now int64) (n int64) {
	for _, s := range list {
		if s.at > now/micro-seconds*1_000_000 {
			n += s.n
		}
	}
	return n
}
