// Package podfitsresources is the predicate PodFitsResources: the node has
// room for one more pod, and for all of CPU, memory, ephemeral storage and
// extended resources that the pod asks for. What the pod does not ask for is
// not checked, so a pod without requests fits an overcommitted node.
//
// Source: kube-scheduler 1.36, plugin NodeResourcesFit (Filter). A resource of
// which the pod asks more than the node has at all is refused for good: no
// other pod's removal would help.
package podfitsresources

import (
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/row"
)

const schema = `{"type":"object","additionalProperties":false,"properties":{` +
	`"ignoredResources":{"type":"array","items":{"type":"string"},"description":"extended resources that are not checked"},` +
	`"ignoredResourceGroups":{"type":"array","items":{"type":"string"},"description":"prefixes (before the slash) of such resources"}}}`

func init() {
	guest.Register(guest.Policy{
		Name: "PodFitsResources", Kind: guest.KindPredicate, ConfigSchema: schema,
		Description: "The node has room for the pod and for what it requests.",
		Reads:       sdk.PodRequests | sdk.NodeCapacity | sdk.NodeUsage,
		Open:        open,
	})
}

type policy struct {
	rows                       *row.Table
	reasons                    *guest.Reasons
	pods, cpu, memory, storage pair
	ignored, ignoredGroups     []string
	want                       facts.Amounts
	scalars                    []facts.Scalar
	scalarReasons              []named
	lacks                      []lack // of the row that was looked at last
	combined                   []combination
}

// pair is a reason in both its forms: others could make room, or never.
type pair struct{ now, never guest.ReasonID }

// lack is a reason that holds, and whether no other pod's removal would help.
type lack struct {
	reason pair
	never  bool
}

// combination is the reason of a row that lacks several resources.
type combination struct {
	of     []pair
	reason pair
}

// maxCombinations bounds those that have a reason of their own; a row beyond gets
// the first of its reasons.
const maxCombinations = 64

type named struct {
	name   facts.Symbol
	reason pair
}

func open(s *guest.Setup) (any, error) {
	p := &policy{rows: s.Rows, reasons: s.Reasons}
	if err := s.Config.OnlyKeys("ignoredResources", "ignoredResourceGroups"); err != nil {
		return nil, err
	}
	var err error
	if p.ignored, err = s.Config.Texts("ignoredResources"); err != nil {
		return nil, err
	}
	if p.ignoredGroups, err = s.Config.Texts("ignoredResourceGroups"); err != nil {
		return nil, err
	}
	p.pods = p.pair("Too many pods")
	p.cpu, p.memory = p.pair("Insufficient cpu"), p.pair("Insufficient memory")
	p.storage = p.pair("Insufficient ephemeral-storage")
	return p, nil
}

func (p *policy) pair(text string) pair {
	return pair{p.reasons.ID(sdk.Reject(text)), p.reasons.ID(sdk.RejectFinal(text))}
}

func (p *policy) PreFilter(pod *sdk.Pod) guest.Answer {
	p.want = pod.Requests
	p.scalars = p.scalars[:0]
	for _, s := range pod.Scalars {
		if s.Value > 0 && !p.ignores(pod.Text(s.Name)) {
			p.scalars = append(p.scalars, s)
		}
	}
	return guest.AskRows
}

func (p *policy) ignores(name string) bool {
	for _, i := range p.ignored {
		if i == name {
			return true
		}
	}
	for _, g := range p.ignoredGroups {
		if len(name) > len(g) && name[:len(g)] == g && name[len(g)] == '/' {
			return true
		}
	}
	return false
}

// FilterRows gives all reasons in Kubernetes' order, as one. It is final if any
// of them is. The columns are taken out of their struct first: the loop
// then costs a third.
func (p *policy) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	has, used, want := &p.rows.Allocatable, &p.rows.Requested, p.want
	hasPods, usedPods := has.Pods, used.Pods
	hasCPU, usedCPU := has.MilliCPU, used.MilliCPU
	hasMemory, usedMemory := has.Memory, used.Memory
	more := want.EphemeralStorage > 0 || len(p.scalars) > 0
	for i, slot := range slots {
		if usedPods[slot] < hasPods[slot] &&
			fits(want.MilliCPU, hasCPU[slot], usedCPU[slot]) &&
			fits(want.Memory, hasMemory[slot], usedMemory[slot]) &&
			(!more || p.moreFits(slot)) {
			verdicts[i] = 0
			continue
		}
		verdicts[i] = p.reason(slot)
	}
}

// fits is kept from overflow by subtracting what is known to be in range.
func fits(want, has, used int64) bool { return want <= 0 || want <= has-used }

// moreFits is about what few pods ask for.
func (p *policy) moreFits(slot int32) bool {
	if !fits(p.want.EphemeralStorage, p.rows.Allocatable.EphemeralStorage[slot], p.rows.Requested.EphemeralStorage[slot]) {
		return false
	}
	for _, s := range p.scalars {
		has := facts.ScalarValue(p.rows.AllocatableScalars[slot], s.Name)
		if !fits(s.Value, has, facts.ScalarValue(p.rows.RequestedScalars[slot], s.Name)) {
			return false
		}
	}
	return true
}

// reason is the slow way, for rows that are refused.
func (p *policy) reason(slot int32) guest.ReasonID {
	all := p.lacking(slot)
	reason := p.combine(all)
	for _, l := range all {
		if l.never {
			return reason.never
		}
	}
	return reason.now
}

// combine is the reason of a row that lacks all of these: the host counts each.
func (p *policy) combine(lacks []lack) pair {
	if len(lacks) == 1 {
		return lacks[0].reason
	}
	for i := range p.combined {
		if p.combined[i].is(lacks) {
			return p.combined[i].reason
		}
	}
	if len(p.combined) == maxCombinations {
		return lacks[0].reason
	}
	c, text := combination{}, ""
	for i, l := range lacks {
		if i > 0 {
			text += ", "
		}
		text += p.reasons.Get(l.reason.now).Reason()
		c.of = append(c.of, l.reason)
	}
	c.reason = p.pair(text)
	p.combined = append(p.combined, c)
	return c.reason
}

func (c *combination) is(lacks []lack) bool {
	if len(c.of) != len(lacks) {
		return false
	}
	for i, l := range lacks {
		if c.of[i] != l.reason {
			return false
		}
	}
	return true
}

func (p *policy) Explain(slot int32, add func(sdk.Verdict)) {
	for _, l := range p.lacking(slot) {
		if l.never {
			add(p.reasons.Get(l.reason.never))
			continue
		}
		add(p.reasons.Get(l.reason.now))
	}
}

// lacking is all that the row lacks. It is good until the next call: thousands
// of rows may be refused in one, and must leave no garbage.
func (p *policy) lacking(slot int32) []lack {
	has, used := p.rows.Allocatable.At(slot), p.rows.Requested.At(slot)
	p.lacks = p.lacks[:0]
	if used.Pods >= has.Pods {
		p.lacks = append(p.lacks, lack{p.pods, false})
	}
	p.check(p.cpu, p.want.MilliCPU, has.MilliCPU, used.MilliCPU)
	p.check(p.memory, p.want.Memory, has.Memory, used.Memory)
	p.check(p.storage, p.want.EphemeralStorage, has.EphemeralStorage, used.EphemeralStorage)
	for _, s := range p.scalars {
		total := facts.ScalarValue(p.rows.AllocatableScalars[slot], s.Name)
		taken := facts.ScalarValue(p.rows.RequestedScalars[slot], s.Name)
		if !fits(s.Value, total, taken) {
			p.lacks = append(p.lacks, lack{p.scalarReason(s.Name), s.Value > total})
		}
	}
	return p.lacks
}

func (p *policy) check(r pair, want, has, used int64) {
	if !fits(want, has, used) {
		p.lacks = append(p.lacks, lack{r, want > has})
	}
}

func (p *policy) scalarReason(name facts.Symbol) pair {
	for _, n := range p.scalarReasons {
		if n.name == name {
			return n.reason
		}
	}
	n := named{name, p.pair("Insufficient " + p.rows.Symbols.String(name))}
	p.scalarReasons = append(p.scalarReasons, n)
	return n.reason
}
