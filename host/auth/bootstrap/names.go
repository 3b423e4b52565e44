package bootstrap

import (
	"context"
	"crypto/sha256"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/auth/view"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// grace is how long a machine counts as live after its last sign of life.
const grace = 40 * time.Second

// names remembers who joined lately under which name: between its join and its
// first Lease a machine has no other sign of life.
type names struct {
	mu    sync.Mutex
	taken map[string]holder
}

type holder struct {
	key   [32]byte
	since time.Time
}

// free refuses a name whose machine is live, and takes it otherwise. The same
// key may ask again: its first answer may have been lost.
func (h *Handler) free(ctx context.Context, ask *joinRequest) error {
	now := h.config.Now()
	lease, err := view.Get[*coordinationv1.Lease](ctx, h.config.Objects, view.Leases, corev1.NamespaceNodeLease, ask.name)
	if err != nil && !view.Missing(err) {
		return err
	}
	key := sha256.Sum256(ask.client.RawSubjectPublicKeyInfo)
	mine, other := h.names.holder(ask.name, key, now)
	if other {
		return taken(ask.name, "another machine joined under this name a moment ago")
	}
	if err == nil && lease.Spec.RenewTime != nil && !mine {
		if age := now.Sub(lease.Spec.RenewTime.Time); age < grace {
			return taken(ask.name, fmt.Sprintf("its machine is live, it renewed its lease %s ago", age.Round(time.Second)))
		}
	}
	if !h.names.take(ask.name, key, now) {
		return taken(ask.name, "another machine joined under this name a moment ago")
	}
	return nil
}

func taken(name, why string) error {
	return apierrors.NewConflict(nodes, name, fmt.Errorf("%s: choose another node name, or stop that machine and try again in %s", why, grace))
}

func (n *names) holder(name string, key [32]byte, now time.Time) (mine, other bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	h, ok := n.taken[name]
	if !ok || now.Sub(h.since) >= grace {
		return false, false
	}
	return h.key == key, h.key != key
}

// take keeps the name for the key; what is older than grace is forgotten.
func (n *names) take(name string, key [32]byte, now time.Time) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	for other, h := range n.taken {
		if now.Sub(h.since) >= grace {
			delete(n.taken, other)
		}
	}
	if h, ok := n.taken[name]; ok && h.key != key {
		return false
	}
	if n.taken == nil {
		n.taken = map[string]holder{}
	}
	n.taken[name] = holder{key: key, since: now}
	return true
}
