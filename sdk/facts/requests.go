package facts

import "github.com/berth-dev/berth/sdk/internal/text"

// MaxAsked is how many resources are; a policy that asks for more pays for them.
const MaxAsked = 8

// podAsked is a resource, as asked, and what the pod asks of it.
type podAsked struct {
	place uint64
	value int64
}

// podAsks are amounts of the pod of the cycle.
type podAsks struct {
	table  [text.Places]podAsked
	names  [MaxAsked]string
	values [MaxAsked]int64
	n      int
}

// set notes what the pod asks of the k-th resource.
func (a *podAsks) set(k int, value int64) {
	a.values[k] = value
	at := text.Address(a.names[k])
	if home := &a.table[text.Place(a.names[k])]; home.place == 0 || home.place == at {
		*home = podAsked{at, value}
	}
}

// seek is what the pod asks of a resource that is not where it is looked for first.
//
//go:noinline
func (p *Pod) seek(resource string) int64 {
	if p.syms == nil { // made by hand, and may yet change
		return (&Name{text: resource, kind: amountOf(resource)}).Of(&p.Requests, p.Scalars)
	}
	a := &p.asks
	for k := range a.names[:a.n] {
		if text.Address(a.names[k]) == text.Address(resource) {
			return a.values[k]
		}
	}
	v := p.syms.ByAddress(resource).Of(&p.Requests, p.Scalars)
	if a.n < MaxAsked && text.HasAddress(resource) {
		a.names[a.n] = resource
		a.set(a.n, v)
		a.n++
	}
	return v
}

// refetch fills in what another pod asks of the same resources.
func (p *Pod) refetch() {
	for k := range p.asks.n {
		p.asks.set(k, p.syms.ByAddress(p.asks.names[k]).Of(&p.Requests, p.Scalars))
	}
}
