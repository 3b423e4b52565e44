package wire

import (
	"strings"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// WhatIf writes a list of questions. Only changes of rows and pods can be
// asked about; others are left out.
func (e *Encoder) WhatIf(questions []framework.WhatIf, reads abi.Groups) []byte {
	e.reset()
	for i := range questions {
		e.push(e.question(&questions[i], reads))
	}
	list := e.vector(0)
	fb.WhatIfInputStart(e.b)
	fb.WhatIfInputAddQuestions(e.b, list)
	return e.finish(fb.WhatIfInputEnd(e.b))
}

func (e *Encoder) question(q *framework.WhatIf, reads abi.Groups) offset {
	mark := len(e.offs)
	for i := range q.Deltas {
		d := &q.Deltas[i]
		switch {
		case !concerns(d, reads&^(abi.ClusterGroups&^abi.Pods)):
		case d.Kind == snapshot.PodPlaced || d.Kind == snapshot.PodRemoved:
			// A question is undone from its end: each pod stands in it, and none stays
			// where the guest kept another.
			e.push(e.movedAt(d, e.pod(d.Pod, reads), 0))
			e.told.pods[0] = like{}
		default:
			e.push(e.delta(d, reads))
		}
	}
	deltas := e.vector(mark)
	fb.QuestionStart(e.b)
	fb.QuestionAddRow(e.b, q.Row)
	fb.QuestionAddDeltas(e.b, deltas)
	return fb.QuestionEnd(e.b)
}

func splitList(s string) []string {
	if s == "" {
		return nil
	}
	return strings.Split(s, ",")
}
