package trial

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

const (
	// maxExamples is how many differences are told one by one, and
	// examplesASort how many of them may be of one sort.
	maxExamples   = 10
	examplesASort = 4
)

// Differences is what a shadow or canary would have decided otherwise.
type Differences struct {
	mu      sync.Mutex
	sum     v1alpha1.Differences
	sorts   [4]int // examples by sort
	changed bool   // since Get was asked
}

// Sorts of examples.
const (
	refusedSort = iota
	admittedSort
	scoredSort
	answeredSort
)

// Resume goes on from what was counted before a restart.
func (d *Differences) Resume(from *v1alpha1.Differences) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if from != nil {
		d.sum = *from.DeepCopy()
	}
}

// Get is what was counted, nil if nothing was.
func (d *Differences) Get() *v1alpha1.Differences {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.changed = false
	if d.sum.Pods == 0 && d.sum.Answers == 0 && d.sum.NotCompared == 0 {
		return nil
	}
	return d.sum.DeepCopy()
}

// News says whether something was counted since Get was asked.
func (d *Differences) News() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.changed
}

// pod counts a pod, and has the others count what is different about it.
func (d *Differences) pod(count func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum.Pods++
	d.changed = true
	count()
}

func (d *Differences) example(sort int, e v1alpha1.Difference) {
	if d.sorts[sort] < examplesASort && len(d.sum.Examples) < maxExamples {
		d.sorts[sort]++
		d.sum.Examples = append(d.sum.Examples, e)
	}
}

// shadow asks a shadow about the cycle that is ending. One that fails hurts
// nobody: its breaker counts. A shadowed predicate could only take away nodes
// that all others admit.
func (d *Differences) shadow(ctx context.Context, box *sandbox.Sandbox, s *Cycle) {
	rows := s.feasible()
	if box.Kind() == abi.KindPriority {
		scores, err := s.scores(ctx, box, rows)
		if err != nil {
			return
		}
		d.pod(func() { d.preferred(s, rows, scores) })
		return
	}
	verdicts, err := s.judge(ctx, box, rows)
	if err != nil {
		return
	}
	d.pod(func() {
		refused := d.sum.Refused
		for i, row := range rows {
			if verdicts[i] != 0 {
				d.refused(s, row, box.Why(verdicts[i]))
			}
		}
		if d.sum.Refused > refused {
			d.sum.RefusedPods++
		}
	})
}

func (d *Differences) refused(s *Cycle, row int32, why string) {
	d.sum.Refused++
	d.example(refusedSort, v1alpha1.Difference{Pod: s.podName(), Node: s.nodeName(row), Live: "admits" + s.chosen(row), Trial: "refuses: " + why})
}

func (s *Cycle) chosen(row int32) string {
	if row == s.Seen.Winner {
		return ", and chose it"
	}
	return ""
}

// preferred counts a pod for which a shadowed priority has a better node than
// the one that it went to.
func (d *Differences) preferred(s *Cycle, rows []int32, scores []int64) {
	at := slices.Index(rows, s.Seen.Winner)
	if at < 0 {
		return
	}
	best := slices.Index(scores, slices.Max(scores))
	if scores[at] == scores[best] {
		return
	}
	d.sum.Scored++
	d.example(scoredSort, v1alpha1.Difference{
		Pod: s.podName(), Node: s.nodeName(rows[best]),
		Live: fmt.Sprintf("chose %s, which scores %d", s.nodeName(s.Seen.Winner), scores[at]), Trial: fmt.Sprintf("scores %d", scores[best]),
	})
}

// canary compares two versions of a policy.
func (d *Differences) canary(ctx context.Context, old, young *sandbox.Sandbox, s *Cycle) {
	if young.Kind() == abi.KindPriority {
		d.compareScores(ctx, old, young, s)
		return
	}
	rows := s.rows()
	would, err := s.judge(ctx, young, rows)
	if err != nil {
		return // it counts against the canary already
	}
	did, err := s.judge(ctx, old, rows)
	if err != nil {
		return
	}
	d.pod(func() {
		refused := d.sum.Refused
		for i, row := range rows {
			switch {
			case did[i] == 0 && would[i] != 0:
				d.refused(s, row, young.Why(would[i]))
			case did[i] != 0 && would[i] == 0:
				d.sum.Admitted++
				d.example(admittedSort, v1alpha1.Difference{Pod: s.podName(), Node: s.nodeName(row), Live: "refuses: " + old.Why(did[i]), Trial: "admits"})
			}
		}
		if d.sum.Refused > refused {
			d.sum.RefusedPods++
		}
	})
}

func (d *Differences) compareScores(ctx context.Context, old, young *sandbox.Sandbox, s *Cycle) {
	rows := s.feasible()
	would, err := s.scores(ctx, young, rows)
	if err != nil {
		return
	}
	did, err := s.scores(ctx, old, rows)
	if err != nil {
		return
	}
	d.pod(func() {
		if len(rows) == 0 {
			return
		}
		for i := range rows {
			d.delta(would[i] - did[i])
		}
		best := slices.Index(would, slices.Max(would))
		if did[best] == slices.Max(did) {
			return
		}
		d.sum.Scored++
		d.example(scoredSort, v1alpha1.Difference{
			Pod: s.podName(), Node: s.nodeName(rows[best]), Live: fmt.Sprintf("scores %d", did[best]), Trial: fmt.Sprintf("scores %d, its best", would[best]),
		})
	})
}

func (d *Differences) delta(by int64) {
	if d.sum.ScoreDelta == nil {
		d.sum.ScoreDelta = &v1alpha1.ScoreDelta{}
	}
	t := d.sum.ScoreDelta
	t.Nodes++
	t.Sum += by
	t.Least, t.Most = min(t.Least, by), max(t.Most, by)
}
