package replicaset

import (
	"math/bits"
	"strconv"

	"github.com/berth-dev/berth/sdk"
)

const second = 1_000_000_000

// deletionCost says how much a pod would be missed.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// pod is what matters of a child.
type pod struct {
	object     *sdk.ControlObject
	node       string
	phase      string
	ready      bool
	readySince int64
	cost       int64
	restarts   int64
	// doubled is how many active pods of the set are on its node.
	doubled int
}

func readPod(o *sdk.ControlObject) pod {
	p := pod{object: o}
	p.node, _ = o.Field("spec.nodeName").Text()
	p.phase, _ = o.Field("status.phase").Text()
	for _, c := range o.Field("status.conditions").Items() {
		if c.String("type", "") == "Ready" {
			p.ready = c.String("status", "") == "True"
			p.readySince = nanos(c.String("lastTransitionTime", ""))
		}
	}
	for _, c := range o.Field("status.containerStatuses").Items() {
		if n, ok := c.Object("restartCount").Number(); ok {
			p.restarts = max(p.restarts, int64(n))
		}
	}
	if text, ok := o.Annotations.Get(deletionCost); ok {
		p.cost, _ = strconv.ParseInt(text, 10, 32)
	}
	return p
}

func (p *pod) active() bool {
	return p.phase != "Succeeded" && p.phase != "Failed" && p.object.Deleted == 0
}

// rank counts, for each pod, the pods on its node.
func rank(pods []pod) {
	onNode := map[string]int{}
	for i := range pods {
		onNode[pods[i].node]++
	}
	for i := range pods {
		pods[i].doubled = onNode[pods[i].node]
	}
}

// byLoss sorts the pods that are missed least to the front.
type byLoss struct {
	pods []pod
	now  int64
}

func (b byLoss) Len() int      { return len(b.pods) }
func (b byLoss) Swap(i, j int) { b.pods[i], b.pods[j] = b.pods[j], b.pods[i] }

func (b byLoss) Less(i, j int) bool {
	p, q := &b.pods[i], &b.pods[j]
	if (p.node == "") != (q.node == "") {
		return p.node == ""
	}
	if a, c := ordinal(p.phase), ordinal(q.phase); a != c {
		return a < c
	}
	if p.ready != q.ready {
		return !p.ready
	}
	if p.cost != q.cost {
		return p.cost < q.cost
	}
	if p.doubled != q.doubled {
		return p.doubled > q.doubled
	}
	if p.ready && p.readySince != q.readySince {
		return b.younger(p, q, p.readySince, q.readySince)
	}
	if p.restarts != q.restarts {
		return p.restarts > q.restarts
	}
	if p.object.Created != q.object.Created {
		return b.younger(p, q, p.object.Created, q.object.Created)
	}
	return false
}

// younger compares ages by powers of two, so that which of several old pods
// goes is left to chance: to their UIDs. A time that is missing is the youngest.
func (b byLoss) younger(p, q *pod, at, other int64) bool {
	if at == 0 || other == 0 {
		return at == 0 && other != 0
	}
	if a, c := b.age(at), b.age(other); a != c {
		return a < c
	}
	return p.object.UID < q.object.UID
}

func (b byLoss) age(since int64) int { return bits.Len64(uint64(max(b.now-since, 0))) }

func ordinal(phase string) int {
	switch phase {
	case "Pending":
		return 0
	case "Unknown":
		return 1
	}
	return 2
}

// nanos reads an RFC 3339 time in UTC, as the API writes it; 0 for others.
func nanos(s string) int64 {
	if len(s) < 20 || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' || s[len(s)-1] != 'Z' {
		return 0
	}
	var n [6]int64
	for i, at := range [...]int{0, 5, 8, 11, 14, 17} {
		size := 2
		if i == 0 {
			size = 4
		}
		v, err := strconv.ParseInt(s[at:at+size], 10, 64)
		if err != nil {
			return 0
		}
		n[i] = v
	}
	return (((days(n[0], n[1], n[2])*24+n[3])*60+n[4])*60 + n[5]) * second
}

// days since 1970-01-01, with the year begun in March so that the leap day is
// its last.
func days(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}
