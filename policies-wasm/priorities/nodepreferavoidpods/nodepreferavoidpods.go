// Package nodepreferavoidpods is the priority NodePreferAvoidPodsPriority: 0
// for nodes whose annotation scheduler.alpha.kubernetes.io/preferAvoidPods
// names the ReplicaSet or ReplicationController of the pod by kind and UID,
// 100 for the others. It is meant to be given a weight of 10000. An annotation
// that cannot be read avoids nothing.
//
// Source: the classic scheduler (Kubernetes 1.14), scaled to 0…100.
package nodepreferavoidpods

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/row"
)

const annotation = "scheduler.alpha.kubernetes.io/preferAvoidPods"

func init() {
	guest.Register(guest.Policy{
		Name: "NodePreferAvoidPodsPriority", Kind: guest.KindPriority,
		Description: "Nodes that ask to be avoided by the pod's controller come last.",
		Reads:       sdk.PodLabels | sdk.NodeAnnotations,
		Open: func(s *guest.Setup) (any, error) {
			return &policy{rows: s.Rows, key: s.Rows.Symbols.Intern(annotation)}, s.Config.OnlyKeys()
		},
	})
}

// maxParsed bounds the annotations that are kept parsed.
const maxParsed = 1024

type policy struct {
	rows   *row.Table
	key    facts.Symbol
	kind   string
	uid    string
	parsed []parsed
}

type parsed struct {
	text        facts.Symbol
	controllers []controller
}

type controller struct{ kind, uid string }

func (p *policy) PreScore(pod *sdk.Pod) guest.Answer {
	for _, o := range pod.Owners {
		kind := pod.Text(o.Kind)
		if o.Controller && (kind == "ReplicaSet" || kind == "ReplicationController") {
			p.kind, p.uid = kind, pod.Text(o.UID)
			return guest.AskRows
		}
	}
	p.kind = ""
	return guest.AskRows
}

func (p *policy) ScoreRows(slots []int32, scores []int64) {
	for i, slot := range slots {
		scores[i] = sdk.MaxNodeScore
		if p.kind == "" {
			continue
		}
		if v := p.rows.Annotations(slot).Value(p.key); v != facts.NoSymbol && p.avoids(v) {
			scores[i] = 0
		}
	}
}

func (p *policy) avoids(text facts.Symbol) bool {
	for _, c := range p.read(text) {
		if c.kind == p.kind && c.uid == p.uid {
			return true
		}
	}
	return false
}

// read parses an annotation once, since many rows may have the same.
func (p *policy) read(text facts.Symbol) []controller {
	for i := range p.parsed {
		if p.parsed[i].text == text {
			return p.parsed[i].controllers
		}
	}
	if len(p.parsed) == maxParsed {
		p.parsed = p.parsed[:0]
	}
	list := controllers(p.rows.Symbols.String(text))
	p.parsed = append(p.parsed, parsed{text, list})
	return list
}

func controllers(text string) (list []controller) {
	v, err := json.Parse([]byte(text))
	if err != nil {
		return nil
	}
	items, err := v.List("preferAvoidPods")
	if err != nil {
		return nil
	}
	for _, i := range items {
		c := i.Object("podSignature").Object("podController")
		list = append(list, controller{c.String("kind", ""), c.String("uid", "")})
	}
	return list
}
