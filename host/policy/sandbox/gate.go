package sandbox

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/wire"
)

// objectGuest is a policy that is asked about objects, not about a snapshot: a gate
// or a controller. Its calls come one at a time.
type objectGuest struct {
	mu  sync.Mutex // held during a call: the instance serves one at a time
	box *Sandbox
	// last is the parent of the last question, and opened how many bytes one had for
	// which the instance was opened, or the last one that was not large.
	last   types.UID
	opened int
}

// ask opens the instance if need be, and calls it about a subject.
func (a *objectGuest) ask(ctx context.Context, f engine.Func, about subject, input func(*wire.Encoder) []byte, objects int) (engine.Result, error) {
	a.box.about = subject{}
	if err := a.box.ready(ctx); err != nil {
		return engine.Result{}, err
	}
	in := input(a.box.encoder)
	if len(in) > engine.MaxInput {
		return engine.Result{}, &wire.TooLargeError{Objects: objects, Bytes: len(in), Most: engine.MaxInput}
	}
	again := a.again(about.parent)
	if len(in) > largeQuestion && a.box.wear.calls > 0 {
		if again && len(in) <= a.opened+a.opened/4 {
			r, err := a.box.try(f, in, a.budget(about, in, objects))
			if err == nil {
				return r, nil
			}
			a.box.log.Debug("policy is built anew for a large question", "err", err)
		}
		a.box.Close()
		if err := a.box.ready(ctx); err != nil {
			return engine.Result{}, err
		}
	}
	a.opened = len(in)
	return a.call(f, about, in, objects)
}

// largeQuestion is the size in bytes from which on a guest is asked that was not asked
// before: what it still has of other parents would leave it too little memory. One that
// was asked about the same parent reads again only what has changed, as long as the
// question fits where it puts it; another has a try where that one fails.
const largeQuestion = 4 << 20

// again tells whether the last question was about the same parent, and remembers this.
func (a *objectGuest) again(parent *wire.ControlObject) bool {
	last := a.last
	a.last = ""
	if parent != nil {
		a.last = parent.Object.GetUID()
	}
	return a.last != "" && a.last == last
}

func (a *objectGuest) call(f engine.Func, about subject, in []byte, objects int) (engine.Result, error) {
	return a.box.call(f, in, a.budget(about, in, objects))
}

// budget is what a call about a subject may take, which is noted.
func (a *objectGuest) budget(about subject, in []byte, objects int) engine.Fuel {
	a.box.about = about
	a.box.slots = max(a.box.slots, engine.SlotsOf(objects))
	return engine.AskBudget(objects, a.box.slots, len(in), a.box.instance.MemoryBytes())
}

// Gate is a live checker of readiness gates.
type Gate struct {
	objectGuest
	observes []abi.Observe
}

// NewGate reads what the checker wants observed: its config has the last word.
func NewGate(box *Sandbox, config []byte) (*Gate, error) {
	if err := CheckConditionTypes(box.entry.ConditionTypes); err != nil {
		return nil, err
	}
	observes, err := Observes(box.entry.Observe, config)
	if err != nil {
		return nil, err
	}
	return &Gate{objectGuest: objectGuest{box: box}, observes: observes}, nil
}

// Observes is what a checker with that manifest and config wants observed.
func Observes(manifest []abi.Observe, config []byte) ([]abi.Observe, error) {
	observes := manifest
	own, err := ownObserves(config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if own != nil { // an empty list wants nothing observed
		observes = own
	}
	for i := range observes {
		if _, err := labels.Parse(observes[i].Selector); err != nil {
			return nil, fmt.Errorf("observe %s: %w", observes[i].Name, err)
		}
	}
	return observes, nil
}

// CheckConditionTypes refuses what no pod can name as its gate, and what is the
// node agent's or the scheduler's to say: two would write it by turns.
func CheckConditionTypes(types []string) error {
	for _, name := range types {
		if wrong := validation.IsQualifiedName(name); len(wrong) > 0 {
			return fmt.Errorf("the conditionType %.64q can be no pod's gate: %s", name, wrong[0])
		}
		switch v1.PodConditionType(name) {
		case v1.PodReady, v1.ContainersReady, v1.PodInitialized, v1.PodScheduled, v1.PodReadyToStartContainers, v1.DisruptionTarget:
			return fmt.Errorf("the conditionType %s is Kubernetes' own: name one such as example.test/%s", name, name)
		}
	}
	return nil
}

// ownObserves reads the member observe of a config. A manifest may be newer
// than this host, and is read leniently; a config was written for this host,
// and what it does not know there is a slip.
func ownObserves(config []byte) (own []abi.Observe, err error) {
	var member struct{ Observe json.RawMessage }
	if len(config) == 0 {
		return nil, nil
	}
	if err := json.Unmarshal(config, &member); err != nil || len(member.Observe) == 0 {
		return nil, err
	}
	strict := json.NewDecoder(bytes.NewReader(member.Observe))
	strict.DisallowUnknownFields()
	if err := strict.Decode(&own); err != nil {
		return nil, fmt.Errorf("observe: %w", err)
	}
	return own, abi.CheckObserves(own)
}

// Observes is what the checker wants to know of each pod.
func (g *Gate) Observes() []abi.Observe { return g.observes }

// Name is the Policy's.
func (g *Gate) Name() string { return g.box.name }

// ConditionTypes are those that the checker claims.
func (g *Gate) ConditionTypes() []string { return g.box.entry.ConditionTypes }

// Judge asks the guest about a batch of pods.
func (g *Gate) Judge(ctx context.Context, now int64, pods []wire.GatePod) ([]abi.Readiness, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	defer g.idle()
	return g.judge(ctx, now, pods)
}

// maxTogether is how many bytes about several pods a guest is given in a call.
// More would fill its memory, and one pod's annotations be another's failure.
const maxTogether = 2 << 20

func (g *Gate) judge(ctx context.Context, now int64, pods []wire.GatePod) ([]abi.Readiness, error) {
	g.box.about = subject{}
	if err := g.box.ready(ctx); err != nil {
		return nil, err
	}
	in := g.box.encoder.Gate(now, pods, g.box.info.Reads)
	if half := len(pods) / 2; half > 0 && len(in) > maxTogether {
		first, err := g.judge(ctx, now, pods[:half])
		if err != nil {
			return nil, err
		}
		rest, err := g.judge(ctx, now, pods[half:])
		return append(first, rest...), err
	}
	r, err := g.call(engine.FuncGate, subject{gated: pods}, in, len(pods))
	if err != nil {
		return g.around(ctx, now, pods, err)
	}
	answers, err := abi.ReadReadiness(r.Out, len(pods))
	if err != nil {
		return nil, g.box.fail(err)
	}
	return answers, nil
}

// around asks again about all pods but the one at which the guest failed, if it
// said which: of that one nobody knows. Failures count, so that a guest which
// fails at many is quarantined before long.
func (g *Gate) around(ctx context.Context, now int64, pods []wire.GatePod, failure error) ([]abi.Readiness, error) {
	bad := int(placeOf(failure))
	if len(pods) == 1 || bad < 0 || bad >= len(pods) {
		return nil, failure
	}
	answers, err := g.judge(ctx, now, slices.Concat(pods[:bad], pods[bad+1:]))
	if err != nil {
		return nil, err
	}
	return slices.Insert(answers, bad, wire.Failed(failure)), nil
}
