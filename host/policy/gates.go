package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/wire"
)

// asked is a policy that is asked about objects, not about a snapshot: a gate
// or a controller. Its calls come one at a time.
type objectGuest struct {
	mu  sync.Mutex // held during a call: the instance serves one at a time
	box *sandbox
}

// ask opens the instance if need be, and calls it about a subject.
func (a *objectGuest) ask(ctx context.Context, f engine.Func, about subject, input func(*wire.Encoder) []byte, objects int) (engine.Result, error) {
	a.box.about = subject{}
	if err := a.box.ready(ctx); err != nil {
		return engine.Result{}, err
	}
	return a.call(f, about, input(a.box.encoder), objects)
}

func (a *objectGuest) call(f engine.Func, about subject, in []byte, objects int) (engine.Result, error) {
	a.box.about = about
	return a.box.call(f, in, engine.AskBudget(objects, len(in), a.box.instance.MemoryBytes()))
}

// Gate is a live checker of readiness gates.
type Gate struct {
	objectGuest
	observes []abi.Observe
}

// newGate reads what the checker wants observed: its config has the last word.
func newGate(box *sandbox, config []byte) (*Gate, error) {
	if err := checkConditionTypes(box.entry.ConditionTypes); err != nil {
		return nil, err
	}
	g := &Gate{objectGuest: objectGuest{box: box}, observes: box.entry.Observe}
	own, err := ownObserves(config)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if own != nil { // an empty list wants nothing observed
		g.observes = own
	}
	for i := range g.observes {
		if _, err := labels.Parse(g.observes[i].Selector); err != nil {
			return nil, fmt.Errorf("observe %s: %w", g.observes[i].Name, err)
		}
	}
	return g, nil
}

// checkConditionTypes refuses what no pod can name as its gate, and what is the
// node agent's or the scheduler's to say: two would write it by turns.
func checkConditionTypes(types []string) error {
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

// Controller is a live controller.
type Controller struct {
	objectGuest
	account v1alpha1.ServiceAccountReference
}

// newController refuses one that has nobody's rights: as the host itself it
// would have all.
func newController(box *sandbox, account *v1alpha1.ServiceAccountReference) (*Controller, error) {
	if account == nil || account.Namespace == "" || account.Name == "" {
		return nil, errors.New("a controller acts as a ServiceAccount: name one in spec.serviceAccount (namespace and name), and grant it by RBAC what the controller reads and writes")
	}
	return &Controller{objectGuest{box: box}, *account}, nil
}

// ServiceAccount is who it acts as.
func (c *Controller) ServiceAccount() v1alpha1.ServiceAccountReference { return c.account }

// Note puts a line of the host's into what `berth policy logs` shows.
func (c *Controller) Note(level slog.Level, message string) {
	if ok, _ := c.box.guestLog.admit(time.Now()); ok {
		c.box.guestLog.add(level, c.box.module.Digest(), message)
	}
}

// Name is the Policy's.
func (c *Controller) Name() string { return c.box.name }

// Parent is the kind that it controls.
func (c *Controller) Parent() abi.ObjectKind { return *c.box.entry.Parent }

// Children are the kinds that it makes.
func (c *Controller) Children() []abi.ObjectKind { return c.box.entry.Children }

// Related are the kinds that it looks at besides.
func (c *Controller) Related() []abi.ObjectKind { return c.box.entry.Related }

// Identity changes when another module or config goes live.
func (c *Controller) Identity() [32]byte { return c.box.info.Identity }

// Reconcile asks the guest what is wanted of a parent's children.
func (c *Controller) Reconcile(ctx context.Context, now int64, parent *wire.ControlObject, children, related []wire.ControlObject) (*abi.ReconcileResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.idle()
	input := func(e *wire.Encoder) []byte { return e.Reconcile(now, parent, children, related) }
	r, err := c.ask(ctx, engine.FuncReconcile, subject{parent: parent}, input, 1+len(children)+len(related))
	if err != nil {
		return nil, err
	}
	outcome, err := abi.ReadReconcileResult(r.Out)
	if err != nil {
		return nil, c.box.fail(err)
	}
	return outcome, nil
}

// Gates returns the live checkers by the condition type that they claim. Where
// two claim the same, the one whose Policy comes first by name has it.
func (s *Set) Gates() map[string]*Gate {
	gates := map[string]*Gate{}
	for _, name := range s.ordered() {
		l := s.enforced(name, abi.KindGate)
		if l == nil {
			continue
		}
		for _, condition := range l.program.entry.ConditionTypes {
			if gates[condition] == nil {
				gates[condition] = l.gate
			}
		}
	}
	return gates
}

// Controllers returns the live controllers in the order of their names.
func (s *Set) Controllers() []*Controller {
	var all []*Controller
	for _, name := range s.ordered() {
		if l := s.enforced(name, abi.KindController); l != nil {
			all = append(all, l.controller)
		}
	}
	return all
}
