package policy

import (
	"context"
	"fmt"
	"hash/fnv"
	"sync"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/schedule/profile"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// canaryOf prefers a policy's canary.
func canaryOf(l *live) (main, twin *sandbox) {
	if l.canary != nil {
		return l.canary.main, l.canary.twin
	}
	return mainOf(l)
}

func (s *Set) hasCanary(p *v1alpha1.Profile) bool {
	for _, name := range names(p) {
		if l := s.policies[name]; l != nil && l.canary != nil && l.mode() == v1alpha1.Enforce {
			return true
		}
	}
	return false
}

// share is a pod's place in 0…99, the same each time that it is tried.
func share(pod *snapshot.Pod) int32 {
	h := fnv.New32a()
	h.Write([]byte(pod.UID()))
	return int32(h.Sum32() % 100)
}

// route sends a share of the pods to the profiles with the canaries in them.
// The share of a profile is that of its most daring policy.
func (s *Set) route(canaries map[*schedule.Profile]*schedule.Profile) func(*snapshot.Pod, *schedule.Profile) *schedule.Profile {
	shares := map[*schedule.Profile]int32{}
	for p := range canaries {
		for _, one := range p.Predicates {
			shares[p] = max(shares[p], s.canaryShare(one.Policy.Info().Name))
		}
		for _, one := range p.Priorities {
			shares[p] = max(shares[p], s.canaryShare(one.Policy.Info().Name))
		}
	}
	return func(pod *snapshot.Pod, p *schedule.Profile) *schedule.Profile {
		if share(pod) < shares[p] {
			return canaries[p]
		}
		return p
	}
}

func (s *Set) canaryShare(name string) int32 {
	if l := s.policies[name]; l != nil && l.canary != nil {
		return l.object.Spec.Canary.Share
	}
	return 0
}

// shadows returns what runs the shadows of a profile after each cycle: those
// policies that it names whose mode is Shadow. Nil where there are none.
func (s *Set) shadows(object *v1alpha1.Profile) func(context.Context, snapshot.Log, *snapshot.Pod, int64, profile.Seen) {
	var run []*live
	for _, name := range names(object) {
		if l := s.policies[name]; l != nil && l.program != nil && l.mode() == v1alpha1.Shadow {
			run = append(run, l)
		}
	}
	if len(run) == 0 {
		return nil
	}
	return func(ctx context.Context, log snapshot.Log, pod *snapshot.Pod, now int64, seen profile.Seen) {
		for _, l := range run {
			l.program.health.differences.note(ctx, l.main, log, pod, now, seen)
		}
	}
}

// mostExamples is how many differences are told in words.
const mostExamples = 10

// differences is what a shadow would have decided otherwise.
type differences struct {
	mu  sync.Mutex
	sum v1alpha1.Differences
}

func (d *differences) get() *v1alpha1.Differences {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.sum.Pods == 0 {
		return nil
	}
	return d.sum.DeepCopy()
}

// note asks a shadow about the cycle that has just ended. A shadow that fails
// hurts nobody: its breaker counts.
func (d *differences) note(ctx context.Context, box *sandbox, log snapshot.Log, pod *snapshot.Pod, now int64, seen profile.Seen) {
	answer, err := box.Pod(ctx, log, pod, now)
	if err != nil {
		return
	}
	d.mu.Lock()
	d.sum.Pods++
	d.mu.Unlock()
	if answer.Ask == abi.AskSkip {
		return
	}
	if box.entry.Kind == abi.KindPriority {
		d.noteScores(ctx, box, pod, seen)
		return
	}
	verdicts := make([]schedule.ReasonID, len(seen.Rows))
	if answer.Ask == abi.AskRefuse {
		for i := range verdicts {
			verdicts[i] = answer.Reason
		}
	} else if box.Filter(ctx, seen.Rows, verdicts) != nil {
		return
	}
	d.noteVerdicts(box, pod, seen, verdicts)
}

func (d *differences) noteVerdicts(box *sandbox, pod *snapshot.Pod, seen profile.Seen, verdicts []schedule.ReasonID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for i, row := range seen.Rows {
		if verdicts[i] == 0 || seen.Refused(row) {
			continue
		}
		d.sum.Refused++
		if row == seen.Winner {
			d.example("%s/%s went to a node that this policy refuses: %s", pod.Object.Namespace, pod.Object.Name, box.reasons.Get(verdicts[i]).Text)
		}
	}
}

// noteScores counts the pods for which the shadow prefers another node.
func (d *differences) noteScores(ctx context.Context, box *sandbox, pod *snapshot.Pod, seen profile.Seen) {
	var rows []int32
	for _, row := range seen.Rows {
		if !seen.Refused(row) {
			rows = append(rows, row)
		}
	}
	raw := make([]int64, len(rows))
	if len(rows) == 0 || seen.Winner < 0 || box.Score(ctx, rows, raw) != nil {
		return
	}
	best, winner := raw[0], raw[0]
	for i, row := range rows {
		best = max(best, raw[i])
		if row == seen.Winner {
			winner = raw[i]
		}
	}
	if winner == best {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.sum.Scored++
	d.example("%s/%s went to a node of score %d, the best is %d", pod.Object.Namespace, pod.Object.Name, winner, best)
}

func (d *differences) example(format string, args ...any) {
	if len(d.sum.Examples) < mostExamples {
		d.sum.Examples = append(d.sum.Examples, fmt.Sprintf(format, args...))
	}
}
