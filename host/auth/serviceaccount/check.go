package serviceaccount

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// AuthenticateToken tells whose token it is; ok is false for a token of another
// kind or issuer. The audiences that count are the context's, by
// authenticator.WithAudiences, or the API's own.
func (i *Issuer) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	c, err := i.read(token)
	if errors.Is(err, errNotOurs) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	wanted, ok := authenticator.AudiencesFrom(ctx)
	if !ok {
		wanted = i.audiences
	}
	common := authenticator.Audiences(c.Audience).Intersect(wanted)
	if len(common) == 0 {
		return nil, false, fmt.Errorf("the token is for %q and not for %q", []string(c.Audience), []string(wanted))
	}
	if err := i.holds(ctx, c, token); err != nil {
		return nil, false, err
	}
	return &authenticator.Response{User: infoOf(c).UserInfo(), Audiences: common}, true, nil
}

// read verifies the signature, or remembers that it was verified.
func (i *Issuer) read(token string) (*claims, error) {
	sum := sha256.Sum256([]byte(token))
	if c := i.verified.get(sum); c != nil {
		return c, nil
	}
	c, err := i.verify(token)
	if err != nil {
		return nil, err
	}
	if c.Subject != serviceaccount.MakeUsername(c.Kubernetes.Namespace, c.Kubernetes.Account.Name) {
		return nil, errors.New("the token's subject is not its account")
	}
	i.verified.put(sum, c)
	return c, nil
}

func (i *Issuer) verify(token string) (*claims, error) {
	c := &claims{}
	err := i.signer.verify(token, i.name, c)
	if errors.Is(err, errNotOurs) {
		return i.verifyLegacy(token)
	}
	return c, err
}

// holds checks what may change from one use of the token to the next.
func (i *Issuer) holds(ctx context.Context, c *claims, token string) error {
	if c.Issuer == legacyIssuer {
		return i.legacyHolds(ctx, c, token)
	}
	if err := c.holdsAt(i.now()); err != nil {
		return err
	}
	return i.exists(ctx, c)
}

// exists checks that the account and what the token is bound to are still those
// that it was made for.
func (i *Issuer) exists(ctx context.Context, c *claims) error {
	k := &c.Kubernetes
	if err := same[*corev1.ServiceAccount](ctx, i, view.ServiceAccounts, k.Namespace, &k.Account); err != nil {
		return err
	}
	if k.Secret != nil {
		if err := same[*corev1.Secret](ctx, i, view.Secrets, k.Namespace, k.Secret); err != nil {
			return err
		}
	}
	if k.Pod != nil {
		return same[*corev1.Pod](ctx, i, view.Pods, k.Namespace, k.Pod)
	}
	if k.Node != nil {
		return same[*corev1.Node](ctx, i, view.Nodes, "", k.Node)
	}
	return nil
}

// deletedFor is how long a token outlives the deletion of its object while the
// object is still there, so that a pod can use it as it shuts down.
const deletedFor = time.Minute

func same[T store.Object](ctx context.Context, i *Issuer, resource, namespace string, want *ref) error {
	obj, err := view.Get[T](ctx, i.objects, resource, namespace, want.Name)
	if err != nil {
		return fmt.Errorf("the token has been invalidated: %w", err)
	}
	if string(obj.GetUID()) != want.UID {
		return fmt.Errorf("the token has been invalidated: %s %s is another one now", resource, want.Name)
	}
	if gone := obj.GetDeletionTimestamp(); gone != nil && gone.Time.Before(i.now().Add(-deletedFor)) {
		return fmt.Errorf("the token has been invalidated: %s %s is being deleted", resource, want.Name)
	}
	return nil
}

func infoOf(c *claims) *serviceaccount.ServiceAccountInfo {
	k := &c.Kubernetes
	info := &serviceaccount.ServiceAccountInfo{Namespace: k.Namespace, Name: k.Account.Name, UID: k.Account.UID}
	if k.Pod != nil {
		info.PodName, info.PodUID = k.Pod.Name, k.Pod.UID
	}
	if k.Node != nil {
		info.NodeName, info.NodeUID = k.Node.Name, k.Node.UID
	}
	if c.ID != "" {
		info.CredentialID = "JTI=" + c.ID
	}
	return info
}

// memory remembers verified tokens by digest. It holds the newest and what was
// asked for lately, twice size at most.
type memory struct {
	size int

	mu         sync.Mutex
	young, old map[[32]byte]*claims
}

func newMemory(size int) *memory { return &memory{size: size, young: map[[32]byte]*claims{}} }

func (m *memory) get(sum [32]byte) *claims {
	m.mu.Lock()
	defer m.mu.Unlock()
	if c := m.young[sum]; c != nil {
		return c
	}
	c := m.old[sum]
	if c != nil {
		m.add(sum, c)
	}
	return c
}

func (m *memory) put(sum [32]byte, c *claims) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.add(sum, c)
}

func (m *memory) add(sum [32]byte, c *claims) {
	if len(m.young) >= m.size {
		m.young, m.old = make(map[[32]byte]*claims, m.size), m.young
	}
	m.young[sum] = c
}
