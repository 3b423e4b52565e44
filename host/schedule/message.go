package schedule

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/framework"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// maxReasons bounds how many reasons a message counts one by one.
const maxReasons = 32

// refusal is the message of a pod that fits nowhere, in Kubernetes' form:
// "0/5 nodes are available: 2 Too many pods, 3 Insufficient cpu."
func refusal(d cycle.Decision, reasons *framework.Reasons) string {
	if d.Nodes == 0 {
		return "no nodes available to schedule pods"
	}
	if d.Whole != 0 {
		return fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, cmp.Or(d.Words, reasons.Get(d.Whole).Text))
	}
	// Several policies may give the same reason in the same words.
	counts := map[string]int{}
	rest := 0
	for _, r := range d.Refusals {
		for _, text := range shortages(reasons.Get(r.Reason).Text) {
			if _, ok := counts[text]; !ok && len(counts) >= maxReasons {
				rest += r.Count
				continue
			}
			counts[text] += r.Count
		}
	}
	parts := make([]string, 0, len(counts)+1)
	for text, n := range counts {
		parts = append(parts, fmt.Sprintf("%d %s", n, text))
	}
	slices.Sort(parts)
	if rest > 0 {
		parts = append(parts, fmt.Sprintf("%d for other reasons", rest))
	}
	return fmt.Sprintf("0/%d nodes are available: %s.", d.Nodes, strings.Join(parts, ", "))
}

// shortages takes a reason that names several resources apart, so that each is
// counted by itself. Other reasons are left whole.
func shortages(text string) []string {
	parts := strings.Split(text, ", ")
	for _, part := range parts {
		if part != snapshot.TooManyPods && !strings.HasPrefix(part, snapshot.Insufficient) {
			return []string{text}
		}
	}
	return parts
}

// noRoom is what the message says of preemption where it did not help.
func (c *core) noRoom(pod *snapshot.Pod, d cycle.Decision) string {
	if pod.NeverPreempts() {
		return " preemption: not eligible due to preemptionPolicy=Never."
	}
	if c.awaitsRoom(pod) {
		return " preemption: not eligible due to a terminating pod on the nominated node."
	}
	victims := 0
	for _, r := range d.Refusals {
		if c.reasons.Get(r.Reason).Resolvable {
			victims += r.Count
		}
	}
	var parts []string
	if victims > 0 {
		parts = append(parts, fmt.Sprintf("%d No preemption victims found for incoming pod", victims))
	}
	if rest := d.Nodes - victims; rest > 0 {
		parts = append(parts, fmt.Sprintf("%d Preemption is not helpful for scheduling", rest))
	}
	slices.Sort(parts) // as kube-scheduler sorts them: by their digits
	return fmt.Sprintf(" preemption: 0/%d nodes are available: %s.", d.Nodes, strings.Join(parts, ", "))
}

// failure is the message of a pod whose policies failed.
func failure(failures []cycle.Failure) string {
	names := make([]string, 0, len(failures))
	for _, f := range failures {
		if !slices.Contains(names, f.Policy) {
			names = append(names, f.Policy)
		}
	}
	return "policies failed: " + strings.Join(names, ", ")
}
