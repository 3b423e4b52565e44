package gate

import (
	"time"

	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/sdk/facts"
	"github.com/berth-dev/berth/sdk/json"
)

// Pod is one pod that waits on a readiness gate, with what the host saw.
// Times are nanoseconds since 1970, 0 where unknown.
type Pod struct {
	facts.Pod
	syms          *facts.Symbols
	ConditionType string
	Phase         string
	Node, IP      string
	StartTime     int64
	Conditions    []facts.Condition
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
	Fields facts.Labels
}

// Readiness is a gate's answer for one pod.
type Readiness struct {
	Status facts.ConditionStatus
	// Reason is one word in CamelCase, Message is for people.
	Reason, Message string
	// RequeueAfter is when to ask again; 0 waits for a change.
	RequeueAfter time.Duration
}

// Checker decides whether pods may become ready.
type Checker interface {
	Check(now int64, pod *Pod) Readiness
}

// Condition returns a condition of the pod, a zero one if there is none.
func (p *Pod) Condition(name string) facts.Condition {
	sym := p.syms.Lookup(name)
	for _, c := range p.Conditions {
		if c.Type == sym {
			return c
		}
	}
	return facts.Condition{}
}

// Reader reads the pods that a gate is asked about, in the memory of those before.
type Reader struct{ pod *Pod }

// Read reads a pod.
func (in *Reader) Read(now int64, r *fb.GatePod, d *facts.Decoder, syms *facts.Symbols) *Pod {
	var p fb.Pod
	told := r.Pod(&p) != nil
	if in.pod == nil || !told {
		in.pod = &Pod{}
	}
	g := in.pod
	g.ConditionType, g.Phase = syms.Text(r.ConditionType()), syms.Text(r.Phase())
	g.Node, g.IP, g.StartTime = syms.Text(r.NodeName()), syms.Text(r.PodIp()), r.StartTime()
	g.Conditions = d.Conditions(g.Conditions[:0], r.ConditionsLength(), r.Conditions)
	g.Containers, g.Observations = g.Containers[:0], g.Observations[:0]
	g.syms = syms
	d.Empty(&g.Pod)
	if told {
		d.Pod(&g.Pod, &p)
	}
	g.Now = now
	var c fb.Container
	for i := 0; i < r.ContainersLength(); i++ {
		r.Containers(&c, i)
		g.Containers = append(g.Containers, Container{
			Name: syms.Text(c.Name()), Ready: c.Ready(), Started: c.Started(), Init: c.InitContainer(),
			RunningSince: c.RunningSince(), Restarts: c.Restarts(),
		})
	}
	var o fb.Observation
	for i := 0; i < r.ObservationsLength(); i++ {
		r.Observations(&o, i)
		g.Observations = append(g.Observations, Observation{
			Name: syms.Text(o.Name()), OK: o.Ok(), Code: o.Code(), At: o.At(), Detail: string(o.Detail()),
			Fields: facts.MakeLabels(syms, d.Pairs(nil, o.FieldsLength(), o.Fields)),
		})
	}
	return g
}

// AppendTo writes the answer as the host reads it.
func (r Readiness) AppendTo(j *json.Writer) {
	status := r.Status
	if status == facts.Absent {
		status = facts.Unknown
	}
	j.Open('{').Key("status").Text(status.String()).Member("reason", r.Reason).Member("message", r.Message)
	if r.RequeueAfter > 0 {
		j.Key("requeueAfterNanos").Int(int64(r.RequeueAfter))
	}
	j.Close('}')
}
