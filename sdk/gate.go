package sdk

import (
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
)

// GatePod is one pod that waits on a readiness gate, with what the host saw.
// Times are nanoseconds since 1970, 0 where unknown.
type GatePod struct {
	Pod
	ConditionType string
	Phase         string
	Node, IP      string
	StartTime     int64
	Conditions    []Condition
	Containers    []Container
	Observations  []Observation
}

// Container is one container's state.
type Container struct {
	Name           string
	Ready, Started bool
	Init           bool
	RunningSince   int64
	Restarts       int32
}

// Observation is what the host saw for the gate.
type Observation struct {
	Name   string
	OK     bool
	Code   int32
	Detail string
	At     int64
	Fields Labels
}

// Readiness is a gate's answer for one pod.
type Readiness struct {
	Status ConditionStatus
	// Reason is one word in CamelCase, Message is for people.
	Reason, Message string
	// RequeueAfter is when to ask again; 0 waits for a change.
	RequeueAfter time.Duration
}

// GateChecker decides whether pods may become ready.
type GateChecker interface {
	Check(now int64, pod *GatePod) Readiness
}

// Condition returns a condition of the pod, a zero one if there is none.
func (p *GatePod) Condition(name string) Condition {
	sym := p.syms.Lookup(name)
	for _, c := range p.Conditions {
		if c.Type == sym {
			return c
		}
	}
	return Condition{}
}

// Gate registers a readiness gate checker for condition types; call it from
// init.
func Gate(name string, g GateChecker, conditionTypes []string, opts ...Option) {
	open := func(s *Setup) (any, error) {
		own := fresh(g)
		return own, configure(own, s.Config)
	}
	p := Policy{
		Name: name, Kind: KindGate, ConditionTypes: conditionTypes, Open: open,
		Reads: abi.PodLabels | abi.PodAnnotations | abi.Time, Scope: abi.ScopeSet,
	}
	for _, o := range opts {
		o(&p)
	}
	Register(p)
}

// Gate answers for a batch of pods: a JSON list, in their order.
func (in *Instance) Gate(b []byte) ([]byte, error) {
	if in.gate == nil {
		return nil, errKind
	}
	at, err := root(b)
	if err != nil {
		return nil, err
	}
	in.begin()
	var input fb.GateInput
	input.Init(b, at)
	j := &JSON{}
	j.Open('[')
	var r fb.GatePod
	for i := 0; i < input.PodsLength(); i++ {
		input.Pods(&r, i)
		At(int32(i))
		in.check(input.Now(), &r).append(j)
	}
	return j.Close(']').Bytes(), nil
}

func (in *Instance) check(now int64, r *fb.GatePod) Readiness {
	d, syms := in.podDec, in.rows.Symbols
	var p fb.Pod
	told := r.Pod(&p) != nil
	if in.gated == nil || !told {
		in.gated = &GatePod{}
	}
	g := in.gated
	g.ConditionType, g.Phase = syms.text(r.ConditionType()), syms.text(r.Phase())
	g.Node, g.IP, g.StartTime = syms.text(r.NodeName()), syms.text(r.PodIp()), r.StartTime()
	g.Conditions = d.conditions(g.Conditions[:0], r.ConditionsLength(), r.Conditions)
	g.Containers, g.Observations = g.Containers[:0], g.Observations[:0]
	g.syms = syms
	if told {
		d.pod(&g.Pod, &p)
	}
	g.Now = now
	var c fb.Container
	for i := 0; i < r.ContainersLength(); i++ {
		r.Containers(&c, i)
		g.Containers = append(g.Containers, Container{
			Name: syms.text(c.Name()), Ready: c.Ready(), Started: c.Started(), Init: c.InitContainer(),
			RunningSince: c.RunningSince(), Restarts: c.Restarts(),
		})
	}
	var o fb.Observation
	for i := 0; i < r.ObservationsLength(); i++ {
		r.Observations(&o, i)
		g.Observations = append(g.Observations, Observation{
			Name: syms.text(o.Name()), OK: o.Ok(), Code: o.Code(), At: o.At(), Detail: string(o.Detail()),
			Fields: Labels{syms, d.pairs(nil, o.FieldsLength(), o.Fields)},
		})
	}
	return withinCheck(in.gate, now, g)
}

//go:noinline
func withinCheck(c GateChecker, now int64, pod *GatePod) Readiness { return c.Check(now, pod) }

func (r Readiness) append(j *JSON) {
	status := r.Status
	if status == Absent {
		status = Unknown
	}
	j.Open('{').Key("status").Text(status.String()).Member("reason", r.Reason).Member("message", r.Message)
	if r.RequeueAfter > 0 {
		j.Key("requeueAfterNanos").Int(int64(r.RequeueAfter))
	}
	j.Close('}')
}
