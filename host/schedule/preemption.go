package schedule

import (
	"encoding/binary"
	"errors"
	"maps"
	"math"
	"slices"

	"github.com/berth-dev/berth/host/schedule/cycle"
	"github.com/berth-dev/berth/host/schedule/snapshot"

	"k8s.io/apimachinery/pkg/types"
)

// Preemption is what was reckoned with when room was sought for a pod, and what
// was found. Where the room was made is Trace.Made.
type Preemption struct {
	// Victims had to go, the most important first; none where nothing helped.
	Victims []cycle.Victim
	// Budgets are those that covered a pod which might have gone.
	Budgets []*cycle.Budget
	// Started tells when the pods that might have gone had started, as far as that
	// counted and the pods themselves, as they were placed, don't tell.
	Started Starts
}

// Failure is a policy that failed in a decision, and what it left unanswered.
type Failure struct {
	Policy string
	// Rows were left without a verdict by a predicate.
	Rows Spans `json:",omitempty"`
	// Foreseeing is which of its answers about what would be failed, from 1 on;
	// 0 for one about what is.
	Foreseeing int `json:",omitempty"`
}

func failuresOf(list []cycle.Failure) []Failure {
	if len(list) == 0 {
		return nil
	}
	all := make([]Failure, len(list))
	for i, f := range list {
		all[i] = Failure{Policy: f.Policy, Rows: spansOf(f.Rows), Foreseeing: f.Foreseeing}
	}
	return all
}

// Starts are times at which placed pods had started, packed: there may be
// thousands in one decision, and four or five bytes are enough for one.
//
//	unit             1 for nanoseconds, 2 for seconds
//	for each slot    its distance from the slot before, how many pods, and
//	for each pod     its distance, in the row, from the pod before, and one more
//	                 than its start's distance from the start before; 0 for a
//	                 pod that had not started
type Starts []byte

const (
	inNanoseconds = 1
	inSeconds     = 2
	second        = int64(1e9)
)

// packStarts packs the starts of pods that are placed.
func packStarts(c *snapshot.Cluster, starts map[types.UID]int64) Starts {
	rows := map[int32][]int{}
	unit, size := byte(inSeconds), second
	for uid, at := range starts {
		_, node, _ := c.Placed(uid)
		slot, ok := c.Slot(node)
		if !ok {
			continue
		}
		i := slices.IndexFunc(c.Row(slot).Pods, func(p *snapshot.Pod) bool { return p.UID() == uid })
		rows[slot] = append(rows[slot], i)
		if at != math.MaxInt64 && at%second != 0 {
			unit, size = inNanoseconds, 1
		}
	}
	if len(rows) == 0 {
		return nil
	}
	packed, before, start := []byte{unit}, int32(0), int64(0)
	for _, slot := range slices.Sorted(maps.Keys(rows)) {
		list := rows[slot]
		slices.Sort(list)
		packed = binary.AppendUvarint(packed, uint64(slot-before))
		packed = binary.AppendUvarint(packed, uint64(len(list)))
		before = slot
		last := 0
		for _, i := range list {
			packed = binary.AppendUvarint(packed, uint64(i-last))
			last = i
			at := starts[c.Row(slot).Pods[i].UID()]
			if at == math.MaxInt64 {
				packed = binary.AppendUvarint(packed, 0)
				continue
			}
			packed = binary.AppendUvarint(packed, zigzag(at/size-start)+1)
			start = at / size
		}
	}
	return slices.Clip(packed)
}

func zigzag(n int64) uint64   { return uint64(n<<1) ^ uint64(n>>63) }
func unzigzag(n uint64) int64 { return int64(n>>1) ^ -int64(n&1) }

var errStarts = errors.New("the times at which pods had started cannot be read: the record is broken")

// Of unpacks the starts of pods that stood in the rows of log.
func (s Starts) Of(log snapshot.Log) (map[types.UID]int64, error) {
	if len(s) == 0 {
		return nil, nil
	}
	size := map[byte]int64{inNanoseconds: 1, inSeconds: second}[s[0]]
	if size == 0 {
		return nil, errStarts
	}
	r := reader{left: s[1:]}
	starts := map[types.UID]int64{}
	slot, start := int64(0), int64(0)
	for len(r.left) > 0 {
		slot += int64(r.next(math.MaxInt32))
		row := log.Row(int32(min(slot, math.MaxInt32)))
		if row == nil {
			return nil, errStarts
		}
		i := uint64(0)
		for range r.next(uint64(len(row.Pods))) {
			i += r.next(math.MaxInt32)
			at := r.next(math.MaxUint64)
			if r.broken || i >= uint64(len(row.Pods)) {
				return nil, errStarts
			}
			uid := row.Pods[i].UID()
			if at == 0 {
				starts[uid] = math.MaxInt64
				continue
			}
			start += unzigzag(at - 1)
			starts[uid] = start * size
		}
		if r.broken {
			return nil, errStarts
		}
	}
	return starts, nil
}

// reader reads numbers, none of which is more than what is right for it.
type reader struct {
	left   []byte
	broken bool
}

func (r *reader) next(most uint64) uint64 {
	v, n := binary.Uvarint(r.left)
	if n <= 0 || v > most {
		r.left, r.broken = nil, true
		return 0
	}
	r.left = r.left[n:]
	return v
}
