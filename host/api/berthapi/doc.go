// Package berthapi answers what Berth's own commands ask beside the Kubernetes
// API: explain, plan, rehearsals, replays, figures and logs of policies, backups,
// tokens, the upload of modules, and what nodes must know of others' pods. It reads what the host's parts tell, and
// decides nothing. Its paths are authorized as Kubernetes authorizes
// non-resource URLs.
package berthapi

import (
	"context"
	"io"
	"log/slog"
	"time"

	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/berth-dev/berth/host/controller/record"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy"
	"github.com/berth-dev/berth/host/policy/trial"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/store"
)

// Store is what is read of the store.
type Store interface {
	Get(store.Key) (store.Object, bool)
	Update(ctx context.Context, k store.Key, change func(store.Object) (store.Object, error)) (store.Object, error)
	Indexed(resource, index, value string) []store.Object
	List(resource, namespace string, o store.ListOptions) (store.List, error)
	Watch(resource, namespace string, from int64) (*store.Watch, error)
	Blob(ctx context.Context, digest string) ([]byte, error)
	Blobs(ctx context.Context) ([]string, error)
	Backup(ctx context.Context, w io.Writer) (int64, error)
}

// Config is what an API answers from. All of it is required.
type Config struct {
	Store     Store
	Policies  *policy.Loader
	Scheduler *schedule.Scheduler
	// Replay derives a decision again.
	Replay func(ctx context.Context, number uint64) (*explain.Replayed, error)
	// ReconcileAgain puts a past question to the controller that answered it, or to a
	// variation of that.
	ReconcileAgain func(ctx context.Context, about record.About, v *trial.Variation) (was *record.Question, again []byte, err error)
	// Drivers are the controllers that run.
	Drivers func() []explain.Driven
	// May tells what users may do.
	May authorizer.Authorizer
	// NewToken makes a token by which a machine joins.
	NewToken func(ctx context.Context, life time.Duration, about string) (string, error)
	Log      *slog.Logger
}

// API answers.
//
// It is large because each command of Berth's own has its handlers in a file of
// its own.
type API struct {
	Config
	planning turns // of those who make a plan or a rehearsal
	deriving turns // of those who derive a decision again
}

// New makes an API.
func New(c Config) *API {
	return &API{Config: c, planning: make(turns, 1), deriving: make(turns, maxDeriving)}
}

// Warnings is the API's admission plugin.
func (a *API) Warnings() Warnings { return Warnings{a} }
