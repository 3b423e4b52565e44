package registry

import (
	"context"
	"log/slog"
	"slices"
	"strconv"

	"github.com/berth-dev/berth/host/api/kind"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Config is what a registry is made of. Store is required.
type Config struct {
	Store *store.Store
	// Admission is asked for every write; nil admits all.
	Admission Admission
	// Tokens answers serviceaccounts/token; nil answers 404.
	Tokens TokenIssuer
	// BeforeCreate may change objects of a store resource ("modules.policy.berth.dev")
	// right after they were decoded, before they are admitted and validated.
	BeforeCreate map[string]func(ctx context.Context, r *Request, obj store.Object) error
	// Claim reserves room for pods that clients bind; nil reserves nothing.
	Claim Claim
	Log   *slog.Logger
}

// Registry holds the operations of the API.
//
// It is large because each operation of the API is a file, and all of them
// share admission and the store.
type Registry struct {
	store        *store.Store
	admission    Admission
	tokens       TokenIssuer
	beforeCreate map[string]func(ctx context.Context, r *Request, obj store.Object) error
	claim        Claim
	log          *slog.Logger
	managers     *managers
	// byNode: the store was opened with the index of pods by node
	byNode bool
}

// New makes a registry. It starts nothing.
func New(c Config) *Registry {
	if c.Admission == nil {
		c.Admission = Admissions(nil)
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	reg := &Registry{
		store: c.Store, admission: c.Admission, tokens: c.Tokens,
		beforeCreate: c.BeforeCreate, claim: c.Claim, log: c.Log, managers: newManagers(),
	}
	if w, err := c.Store.WatchIndexed(podKind.StoreName(), IndexNode, "any", c.Store.Revision()); err == nil {
		w.Stop()
		reg.byNode = true
	}
	return reg
}

// Store is where the registry keeps its objects. Whoever writes to it directly
// bypasses admission and validation.
func (reg *Registry) Store() *store.Store { return reg.store }

// Get returns the newest state. The object is shared: change a copy.
func (reg *Registry) Get(_ context.Context, r *Request) (store.Object, error) {
	obj, ok := reg.store.Get(r.key())
	if !ok {
		return nil, apierrors.NewNotFound(r.Kind.GroupResource(), r.Name)
	}
	return obj, nil
}

// Indexes are what the API looks up in the store, to be given to store.Open:
// pods by node, services by their node ports, and everything by the uid of its
// owners.
func Indexes() map[string]map[string]store.IndexFunc {
	return map[string]map[string]store.IndexFunc{
		"pods":             {IndexNode: podNode},
		"services":         {IndexNodePort: nodePorts},
		store.AllResources: {IndexOwner: ownerUIDs},
	}
}

// Names of the indexes.
const (
	IndexNode     = "spec.nodeName"
	IndexNodePort = "spec.ports.nodePort"
	IndexOwner    = "metadata.ownerReferences.uid"
)

// podNode leaves out pods that wait: nobody looks for them here, and each pod
// would be put in twice.
func podNode(obj store.Object) []string {
	k, ok := kind.Of(obj)
	if !ok || k.Field == nil {
		return nil
	}
	if node := k.Field(obj, IndexNode); node != "" {
		return []string{node}
	}
	return nil
}

// nodePorts are the ports of nodes that a service has, that of its health
// checks included.
func nodePorts(obj store.Object) []string {
	s, ok := obj.(*corev1.Service)
	if !ok {
		return nil
	}
	var ports []string
	add := func(port int32) {
		if text := strconv.Itoa(int(port)); port != 0 && !slices.Contains(ports, text) {
			ports = append(ports, text)
		}
	}
	for i := range s.Spec.Ports {
		add(s.Spec.Ports[i].NodePort)
	}
	add(s.Spec.HealthCheckNodePort)
	return ports
}

func ownerUIDs(obj store.Object) []string {
	refs := obj.GetOwnerReferences()
	if len(refs) == 0 {
		return nil
	}
	uids := make([]string, len(refs))
	for i := range refs {
		uids[i] = string(refs[i].UID)
	}
	return uids
}
