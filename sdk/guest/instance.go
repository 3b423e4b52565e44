package guest

import (
	"encoding/binary"
	"errors"

	flatbuffers "github.com/google/flatbuffers/go"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/gate"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
	"github.com/berth-dev/berth/sdk/row"
)

// Instance is one opened policy. A guest has one; tests that run natively may
// have many. Its methods are the exports of the ABI, taking and giving bytes.
//
// It is large because each export of the ABI is a method, with the steps that
// it takes.
type Instance struct {
	policy  *Policy
	rows    *row.Table
	reasons *Reasons

	filter  BatchFilterer
	scorer  BatchScorer
	gate    gate.Checker
	control reconcile.Reconciler
	request reconcile.Reader
	explain Explainer
	refuser Refuser
	onRow   RowFollower
	onPod   PodFollower
	onObj   ObjectFollower
	idler   Idler
	// depender tells what its answers depend on.
	depender Depender
	depends  dependsText
	gated    gate.Reader
	// forgets says that it keeps nothing of a pod when the next one comes.
	forgets bool

	seq    uint64
	asked  bool
	pod    facts.Pod
	podDec *facts.Decoder
	given  bool // pod is one that was sent
	// kept are the pods that were told, by their places; nil where none was.
	kept  [abi.KeptPods]*keptPod
	delta fb.Delta
	batch fb.Batch
	input fb.PodInput
	// podRead reads the pod of the cycle and those of deltas.
	podRead fb.Pod
	row     [1]int32
	base    int

	slots    []int32
	verdicts []byte
	scores   []int64
	out      []byte
}

// Open makes an instance of the module's policy that config names:
// {"policy":"NAME","config":{…}}; the first policy where it names none.
func Open(config []byte) (*Instance, error) {
	v, err := json.Parse(config)
	if err != nil {
		return nil, errors.New("config: " + err.Error())
	}
	p, err := choose(v.String("policy", ""))
	if err != nil {
		return nil, err
	}
	in := &Instance{policy: p, rows: row.New(p.Reads), reasons: newReasons()}
	in.podDec = facts.NewDecoder(in.rows.Symbols)
	in.podDec.Empty(&in.pod)
	impl, err := p.Open(&Setup{Config: v.Object("config"), Rows: in.rows, Reasons: in.reasons})
	if err == nil && v.Wrong() != "" {
		err = errors.New(v.Wrong())
	}
	if err != nil {
		return nil, errors.New(p.Name + ": " + err.Error())
	}
	return in, in.bind(impl)
}

func choose(name string) (*Policy, error) {
	if len(registered) == 0 {
		return nil, errors.New("the module registers no policy")
	}
	if name == "" {
		return registered[0], nil
	}
	if p := lookup(name); p != nil {
		return p, nil
	}
	return nil, errors.New("the module has no policy " + name)
}

func (in *Instance) bind(impl any) error {
	in.filter, _ = impl.(BatchFilterer)
	in.scorer, _ = impl.(BatchScorer)
	in.gate, _ = impl.(gate.Checker)
	in.control, _ = impl.(reconcile.Reconciler)
	in.depender, _ = impl.(Depender)
	simple, isSimple := impl.(interface{ Author() any })
	if isSimple {
		impl = simple.Author()
	}
	in.explain, _ = impl.(Explainer)
	in.refuser, _ = impl.(Refuser)
	in.onRow, _ = impl.(RowFollower)
	in.onPod, _ = impl.(PodFollower)
	in.onObj, _ = impl.(ObjectFollower)
	in.idler, _ = impl.(Idler)
	in.forgets = isSimple && in.onRow == nil && in.onPod == nil && in.onObj == nil
	if !in.faces() {
		return errors.New(in.policy.Name + ": " + errFace.Error())
	}
	return nil
}

func (in *Instance) faces() bool {
	switch in.policy.Kind {
	case KindPredicate:
		return in.filter != nil
	case KindPriority:
		return in.scorer != nil
	case KindGate:
		return in.gate != nil
	}
	return in.control != nil
}

// Rows is the instance's table of rows.
func (in *Instance) Rows() *row.Table { return in.rows }

// Reason returns the verdict behind a reason.
func (in *Instance) Reason(id ReasonID) Verdict { return in.reasons.Get(id) }

var (
	errNoPod   = errors.New("no pod was given in this cycle")
	errRow     = errors.New("a row that this guest was not told of")
	errShort   = errors.New("the input is too short")
	errSlot    = errors.New("a slot is out of range")
	errBehind  = errors.New("the pod's sequence is not that of the last batch")
	errKind    = errors.New("the policy is not of the kind that this call is for")
	errUnknown = errors.New("a delta of unknown kind")
)

// root says where a record's table begins, after a look at its bounds: the
// readers themselves trap on what is malformed deeper inside.
func root(b []byte) (flatbuffers.UOffsetT, error) {
	if len(b) < 8 {
		return 0, errShort
	}
	n := flatbuffers.GetUOffsetT(b)
	if uint64(n)+4 > uint64(len(b)) {
		return 0, errShort
	}
	return n, nil
}

// Pod starts a cycle for a pod.
func (in *Instance) Pod(b []byte) (Answer, error) {
	in.asked = false
	at, err := root(b)
	if err != nil {
		return Answer{}, err
	}
	if in.filter == nil && in.scorer == nil {
		return Answer{}, errKind
	}
	input := &in.input
	input.Init(b, at)
	if input.Seq() != in.seq {
		return Answer{}, errBehind
	}
	p := &in.podRead
	in.begin()
	switch {
	case input.Pod(p) != nil:
		if in.forgets {
			in.rows.Symbols.Lend()
		}
		in.podDec.Pod(&in.pod, p)
		in.rows.Symbols.Lent()
		in.given = true
	case !in.given:
		return Answer{}, errNoPod
	}
	in.pod.Now = input.Now()
	in.asked = true
	return in.ask(), nil
}

// begin notes how much the strings take when the first question comes, so that
// Idle can tell growth from need.
func (in *Instance) begin() {
	if in.base == 0 {
		in.base = max(in.rows.Symbols.Size(), 1)
	}
}

func (in *Instance) ask() Answer {
	if in.filter != nil {
		return in.filter.PreFilter(&in.pod)
	}
	return in.scorer.PreScore(&in.pod)
}

// Filter answers for rows, packed as little-endian u32; none stands for all
// slots, and then the answer has one byte a slot. The answer is valid until
// the next call.
func (in *Instance) Filter(rows []byte) ([]byte, error) {
	if in.filter == nil {
		return nil, errKind
	}
	if !in.asked {
		return nil, errNoPod
	}
	if len(rows) == 0 {
		return in.filterAll(), nil
	}
	slots, err := in.readRows(rows)
	if err != nil {
		return nil, err
	}
	in.verdicts = reuse(in.verdicts, len(slots))
	in.filter.FilterRows(slots, in.verdicts)
	return in.verdicts, nil
}

func (in *Instance) filterAll() []byte {
	in.allRows()
	n := len(in.slots)
	in.verdicts = reuse(in.verdicts, n+len(in.rows.Live))
	packed, all := in.verdicts[:n], in.verdicts[n:]
	clear(all)
	in.filter.FilterRows(in.slots, packed)
	for i, slot := range in.slots {
		all[slot] = packed[i]
	}
	return all
}

// Score answers for rows with one little-endian i64 each; rows are as in Filter.
func (in *Instance) Score(rows []byte) ([]byte, error) {
	if in.scorer == nil {
		return nil, errKind
	}
	if !in.asked {
		return nil, errNoPod
	}
	if len(rows) == 0 {
		in.allRows()
		in.scores = reuse(in.scores, len(in.slots))
		in.scorer.ScoreRows(in.slots, in.scores)
		return in.scatter(), nil
	}
	slots, err := in.readRows(rows)
	if err != nil {
		return nil, err
	}
	in.scores = reuse(in.scores, len(slots))
	in.scorer.ScoreRows(slots, in.scores)
	return in.packScores(), nil
}

func (in *Instance) scatter() []byte {
	in.out = reuse(in.out, 8*len(in.rows.Live))
	clear(in.out)
	for i, slot := range in.slots {
		binary.LittleEndian.PutUint64(in.out[8*slot:], uint64(in.scores[i]))
	}
	return in.out
}

func (in *Instance) allRows() {
	in.slots = in.slots[:0]
	for slot, live := range in.rows.Live {
		if live {
			in.slots = append(in.slots, int32(slot))
		}
	}
}

func (in *Instance) readRows(b []byte) ([]int32, error) {
	if len(b)%4 != 0 {
		return nil, errShort
	}
	slots, live := in.unpackSlots(b), in.rows.Live
	for _, slot := range slots {
		if uint32(slot) >= uint32(len(live)) || !live[slot] {
			return nil, errRow
		}
	}
	return slots, nil
}

// maxStrings is how many bytes of strings an instance holds before it is worth
// building it anew: with their table they take three times that, and the
// collector that runs in a decision has all of it to walk.
const maxStrings = 2 << 20

// Idle tidies up. It answers abi.IdleRebuild when strings that no row needs
// any more make up most of the instance.
func (in *Instance) Idle() uint32 {
	if in.idler != nil {
		in.idler.Idle()
	}
	if in.base != 0 && in.rows.Symbols.Size() > max(maxStrings, 2*in.base) {
		return abi.IdleRebuild
	}
	return abi.StatusOK
}
