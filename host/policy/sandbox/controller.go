package sandbox

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/wire"
)

// Controller is a live controller.
type Controller struct {
	objectGuest
	account v1alpha1.ServiceAccountReference
}

// NewController has a sandbox asked as a controller. It refuses one that has
// nobody's rights: as the host itself it would have all.
func NewController(box *Sandbox, account *v1alpha1.ServiceAccountReference) (*Controller, error) {
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

// Broke counts an answer that broke a rule of controllers, and notes it.
func (c *Controller) Broke(rule, message string) {
	c.box.health.broke(rule)
	c.Note(slog.LevelWarn, message)
}

// Name is the Policy's.
func (c *Controller) Name() string { return c.box.name }

// Parent is the kind that it controls.
func (c *Controller) Parent() abi.ObjectKind { return *c.box.entry.Parent }

// Children are the kinds that it makes.
func (c *Controller) Children() []abi.ObjectKind { return c.box.entry.Children }

// Related are the kinds that it looks at besides.
func (c *Controller) Related() []abi.ObjectKind { return c.box.entry.Related }

// Seeded tells whether it is given a seed with each question.
func (c *Controller) Seeded() bool { return c.box.entry.Seed }

// Identity changes when another module or config goes live.
func (c *Controller) Identity() [32]byte { return c.box.info.Identity }

// Reconcile asks the guest what is wanted of a parent's children.
func (c *Controller) Reconcile(ctx context.Context, in *wire.ReconcileInput) (*abi.ReconcileResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	defer c.idle()
	var question []byte
	input := func(e *wire.Encoder) []byte {
		question = e.Reconcile(in)
		return question
	}
	r, err := c.ask(ctx, engine.FuncReconcile, subject{parent: &in.Parent}, input, engine.Reconciled(1+len(in.Children)+len(in.Related)))
	var outcome *abi.ReconcileResult
	if err == nil {
		if outcome, err = abi.ReadReconcileResult(r.Out); err != nil {
			err = c.box.fail(err)
		}
	}
	if in.Asked != nil && question != nil {
		in.Asked(question, r.Out, err)
	}
	return outcome, err
}

// Again puts a question to a controller that it was asked before, as the very
// bytes, and returns its answer as it is.
func (s *Sandbox) Again(ctx context.Context, question []byte) ([]byte, error) {
	in := fb.GetRootAsReconcileInput(question, 0)
	objects := 1 + in.ChildrenLength() + in.RelatedLength()
	guest := objectGuest{box: s}
	r, err := guest.ask(ctx, engine.FuncReconcile, subject{}, func(*wire.Encoder) []byte { return question }, engine.Reconciled(objects))
	return r.Out, err
}
