package sdk

import (
	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/sdk/guest"
	"github.com/berth-dev/berth/sdk/reconcile"
	"github.com/berth-dev/berth/sdk/row"
)

// Filterer is a predicate in its simplest form: it judges one pod and one
// node by nothing but the two.
type Filterer interface {
	Filter(pod *Pod, node *Node) Verdict
}

// Scorer is a priority in its simplest form: the higher the better, within
// ±2^40.
type Scorer interface {
	Score(pod *Pod, node *Node) int64
}

// Configurer is a policy with settings. It is called once, when the instance
// is opened; an error refuses the settings and says why.
type Configurer interface {
	Configure(c Config) error
}

// Option says more about a policy.
type Option func(*guest.Policy)

// Describe is one sentence for the manifest.
func Describe(text string) Option { return func(p *guest.Policy) { p.Description = text } }

// Reads limits what the policy is sent. The less it reads, the fewer changes
// make the host ask it again. What is not read is empty in Pod and Node.
func Reads(groups abi.Groups) Option { return func(p *guest.Policy) { p.Reads = groups } }

// ConfigSchema is a JSON schema of the policy's settings.
func ConfigSchema(schema string) Option { return func(p *guest.Policy) { p.ConfigSchema = schema } }

// Related are kinds whose objects a controller is given besides parent and
// children: those in the parent's namespace that its selector matches.
func Related(kinds ...reconcile.Kind) Option { return func(p *guest.Policy) { p.Related = kinds } }

// Seed has a controller be given a number with each question (Request.Seed), for
// what is to be random. The host keeps it with the question, so that it can be
// asked again; nothing else in a guest is random.
func Seed() Option { return func(p *guest.Policy) { p.Seed = true } }

// Normalize says how the host turns raw scores into 0…100.
func Normalize(n abi.Normalization) Option { return func(p *guest.Policy) { p.Normalize = n } }

// The ways from raw scores to 0…100; see Normalize.
const (
	NormalizeNone        = abi.NormalizeNone        // as it is, cut to 0…100
	NormalizeMax         = abi.NormalizeMax         // the highest score is worth 100, 0 nothing
	NormalizeMaxReversed = abi.NormalizeMaxReversed // the highest is worth nothing, 0 is worth 100
	NormalizeMinMax      = abi.NormalizeMinMax      // the lowest is worth nothing, the highest 100
)

// Predicate registers a predicate; call it from init. Its answers are
// remembered: they may depend on nothing but pod and node, unless it reads
// time or a group of cluster objects, which makes it one of scope set. The host
// asks it about one of the nodes that are equal in what it has looked at by
// Node's methods, however they differ otherwise. Such a
// one may follow objects, pods and rows by the interfaces of those names.
func Predicate[F Filterer](name string, f F, opts ...Option) {
	registerSimple(name, guest.KindPredicate, opts, func(s *guest.Setup) (any, error) {
		own := fresh(f)
		return &simpleFilter[F]{impl: own, reasons: s.Reasons, rows: s.Rows.Cursor()}, configure(own, s.Config)
	})
}

// Priority registers a priority; call it from init. Its answers are
// remembered as those of a Predicate are.
func Priority[S Scorer](name string, f S, opts ...Option) {
	registerSimple(name, guest.KindPriority, opts, func(s *guest.Setup) (any, error) {
		own := fresh(f)
		return &simpleScore[S]{impl: own, rows: s.Rows.Cursor()}, configure(own, s.Config)
	})
}

func registerSimple(name string, kind guest.Kind, opts []Option, open func(*guest.Setup) (any, error)) {
	p := guest.Policy{Name: name, Kind: kind, Reads: abi.PodGroups | abi.NodeGroups | abi.NodeName, Open: open}
	for _, o := range opts {
		o(&p)
	}
	guest.Register(p)
}

//go:noinline
func configure(impl any, c Config) error {
	if s, ok := impl.(Configurer); ok {
		return s.Configure(c)
	}
	return c.OnlyKeys()
}

type simpleFilter[F Filterer] struct {
	impl    F
	reasons *guest.Reasons
	pod     *Pod
	rows    *row.Cursor
}

// Author is what the policy's author wrote: it may follow rows, pods and objects.
func (s *simpleFilter[F]) Author() any { return s.impl }
func (s *simpleScore[S]) Author() any  { return s.impl }

func (s *simpleFilter[F]) PreFilter(pod *Pod) guest.Answer {
	s.pod = pod
	return guest.AskRows
}

func (s *simpleFilter[F]) FilterRows(slots []int32, verdicts []guest.ReasonID) {
	for len(slots) > 0 {
		n := s.rows.Begin(slots)
		s.block(slots[:n], verdicts[:n])
		slots, verdicts = slots[n:], verdicts[n:]
	}
	s.rows.End()
}

func (s *simpleFilter[F]) block(slots []int32, verdicts []guest.ReasonID) {
	impl, pod, rows, reasons := s.impl, s.pod, s.rows, s.reasons
	for i := range verdicts[:len(slots)] {
		guest.At(slots[i])
		rows.At(slots[i], i)
		verdicts[i] = withinFilter(impl, pod, rows.Node(), reasons)
	}
}

// withinFilter stays a function of its own, as do all that call an author's code
// and those that an author calls: a compiler makes one of like panics in a function
// and what it inlined there, and a trap would tell of this package's loops instead.
//
//go:noinline
func withinFilter[F Filterer](f F, pod *Pod, node *Node, reasons *guest.Reasons) guest.ReasonID {
	v := f.Filter(pod, node)
	if v.Admitted() {
		return 0
	}
	return reasons.ID(v)
}

type simpleScore[S Scorer] struct {
	impl S
	pod  *Pod
	rows *row.Cursor
}

func (s *simpleScore[S]) PreScore(pod *Pod) guest.Answer {
	s.pod = pod
	return guest.AskRows
}

func (s *simpleScore[S]) ScoreRows(slots []int32, scores []int64) {
	for len(slots) > 0 {
		n := s.rows.Begin(slots)
		s.block(slots[:n], scores[:n])
		slots, scores = slots[n:], scores[n:]
	}
	s.rows.End()
}

func (s *simpleScore[S]) block(slots []int32, scores []int64) {
	impl, pod, rows := s.impl, s.pod, s.rows
	for i := range scores[:len(slots)] {
		guest.At(slots[i])
		rows.At(slots[i], i)
		scores[i] = withinScore(impl, pod, rows.Node())
	}
}

//go:noinline
func withinScore[S Scorer](f S, pod *Pod, node *Node) int64 { return f.Score(pod, node) }

// MaxNodeScore is the most that a score is worth after normalisation.
const MaxNodeScore = 100
