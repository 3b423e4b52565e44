// Package pods is what the controllers of pods share: what matters of one, which
// is missed least, and times as the API writes them.
package pods

import (
	"math/bits"
	"sort"
	"strconv"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// Second is in nanoseconds, as all times of the ABI.
const Second = 1_000_000_000

// deletionCost says how much a pod would be missed.
const deletionCost = "controller.kubernetes.io/pod-deletion-cost"

// Facts are those of a Pod that Read looks at.
var Facts = []string{abi.FactPod}

// Pod is what matters of a child.
type Pod struct {
	*reconcile.Object
	Node  string
	Phase string
	Ready bool
	// ReadySince is when Ready last changed, in nanoseconds since 1970.
	ReadySince int64
	cost       int64
	restarts   int64
	// doubled is how many active pods of the set are on its node.
	doubled int
}

// Read reads a Pod whose kind was declared with Facts.
func Read(o *reconcile.Object) Pod {
	p := Pod{
		Object: o, Node: o.Pod.NodeName, Phase: o.Pod.Phase, Ready: o.Pod.Ready, ReadySince: o.Pod.ReadySince,
		restarts: o.Pod.Restarts,
	}
	if text, ok := o.Annotations.Get(deletionCost); ok {
		p.cost, _ = strconv.ParseInt(text, 10, 32)
	}
	return p
}

// Active tells whether the pod has not ended, and is not about to.
func (p *Pod) Active() bool {
	return p.Phase != "Succeeded" && p.Phase != "Failed" && p.Deleted == 0
}

// Available tells whether the pod has been Ready for so many seconds; wait is in
// how many nanoseconds it will be, 0 where no time helps.
func (p *Pod) Available(minReadySeconds, now int64) (available bool, wait int64) {
	if !p.Ready {
		return false, 0
	}
	if minReadySeconds == 0 {
		return true, 0
	}
	if p.ReadySince == 0 {
		return false, 0
	}
	left := p.ReadySince + minReadySeconds*Second - now
	return left <= 0, max(left, 0)
}

// SortByLoss puts the pods that are missed least to the front.
func SortByLoss(pods []Pod, now int64) {
	onNode := map[string]int{}
	for i := range pods {
		onNode[pods[i].Node]++
	}
	for i := range pods {
		pods[i].doubled = onNode[pods[i].Node]
	}
	sort.Sort(byLoss{pods, now})
}

type byLoss struct {
	pods []Pod
	now  int64
}

func (b byLoss) Len() int      { return len(b.pods) }
func (b byLoss) Swap(i, j int) { b.pods[i], b.pods[j] = b.pods[j], b.pods[i] }

func (b byLoss) Less(i, j int) bool {
	p, q := &b.pods[i], &b.pods[j]
	if (p.Node == "") != (q.Node == "") {
		return p.Node == ""
	}
	if a, c := ordinal(p.Phase), ordinal(q.Phase); a != c {
		return a < c
	}
	if p.Ready != q.Ready {
		return !p.Ready
	}
	if p.cost != q.cost {
		return p.cost < q.cost
	}
	if p.doubled != q.doubled {
		return p.doubled > q.doubled
	}
	if p.Ready && p.ReadySince != q.ReadySince {
		return b.younger(p, q, p.ReadySince, q.ReadySince)
	}
	if p.restarts != q.restarts {
		return p.restarts > q.restarts
	}
	if p.Created != q.Created {
		return b.younger(p, q, p.Created, q.Created)
	}
	return false
}

// younger compares ages by powers of two, so that which of several old pods
// goes is left to chance: to their UIDs. A time that is missing is the youngest.
func (b byLoss) younger(p, q *Pod, at, other int64) bool {
	if at == 0 || other == 0 {
		return at == 0 && other != 0
	}
	if a, c := b.age(at), b.age(other); a != c {
		return a < c
	}
	return p.UID < q.UID
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

// Nanos reads an RFC 3339 time in UTC, as the API writes it; 0 for others.
func Nanos(s string) int64 {
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
	return (((days(n[0], n[1], n[2])*24+n[3])*60+n[4])*60 + n[5]) * Second
}

// days since 1970-01-01, with the year begun in March so that the leap day is
// its last.
func days(year, month, day int64) int64 {
	if month <= 2 {
		year, month = year-1, month+12
	}
	return 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
}

// Time writes a time as the API does, in whole seconds of UTC.
func Time(nanos int64) string {
	seconds := nanos / Second
	day, rest := seconds/86400, seconds%86400
	// The year begins in March, so that the leap day is its last.
	z := day + 719468
	era := z / 146097
	doe := z - era*146097
	yoe := (doe - doe/1460 + doe/36524 - doe/146096) / 365
	doy := doe - (365*yoe + yoe/4 - yoe/100)
	mp := (5*doy + 2) / 153
	month := mp + 3
	if mp >= 10 {
		month = mp - 9
	}
	year := yoe + era*400
	if month <= 2 {
		year++
	}
	b := make([]byte, 0, 20)
	b = digits(b, year, 4, '-')
	b = digits(b, month, 2, '-')
	b = digits(b, doy-(153*mp+2)/5+1, 2, 'T')
	b = digits(b, rest/3600, 2, ':')
	b = digits(b, rest/60%60, 2, ':')
	return string(digits(b, rest%60, 2, 'Z'))
}

func digits(b []byte, n int64, width int, end byte) []byte {
	text := strconv.FormatInt(n, 10)
	for i := len(text); i < width; i++ {
		b = append(b, '0')
	}
	return append(append(b, text...), end)
}
