package ingress

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
	v1 "k8s.io/api/core/v1"
)

// believed is how long a certificate, or that there is none, is not asked for
// again: however many clients come, the API is asked that often.
const believed = 10 * time.Second

// keys are the certificates of Secrets.
type keys struct {
	read func(ctx context.Context, namespace, name string) (*v1.Secret, error)
	log  *slog.Logger
	one  singleflight.Group

	mu   sync.Mutex
	seen map[Secret]*seen
}

type seen struct {
	at  time.Time
	tls *tls.Certificate
	err error
}

func newKeys(read func(ctx context.Context, namespace, name string) (*v1.Secret, error), log *slog.Logger) *keys {
	return &keys{read: read, log: log, seen: map[Secret]*seen{}}
}

// keep forgets what a table has no more.
func (k *keys) keep(t *Table) {
	all := t.secrets()
	k.mu.Lock()
	defer k.mu.Unlock()
	for name := range k.seen {
		if !all[name] {
			delete(k.seen, name)
		}
	}
}

func (k *keys) get(ctx context.Context, name Secret) (*tls.Certificate, error) {
	k.mu.Lock()
	s := k.seen[name]
	k.mu.Unlock()
	if s != nil && time.Since(s.at) < believed {
		return s.tls, s.err
	}
	got, err, _ := k.one.Do(name.Namespace+"/"+name.Name, func() (any, error) {
		// One client that goes does not end it for the others.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), headersWithin)
		defer cancel()
		s := &seen{}
		s.tls, s.err = k.pair(ctx, name)
		s.at = time.Now()
		if s.err != nil {
			k.log.Warn("no TLS for an Ingress", "secret", name.Namespace+"/"+name.Name, "err", s.err)
		}
		k.mu.Lock()
		defer k.mu.Unlock()
		k.seen[name] = s
		return s.tls, s.err
	})
	pair, _ := got.(*tls.Certificate)
	return pair, err
}

func (k *keys) pair(ctx context.Context, name Secret) (*tls.Certificate, error) {
	secret, err := k.read(ctx, name.Namespace, name.Name)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(secret.Data[v1.TLSCertKey], secret.Data[v1.TLSPrivateKeyKey])
	if err != nil {
		return nil, fmt.Errorf("want a certificate in %s and its key in %s: %w", v1.TLSCertKey, v1.TLSPrivateKeyKey, err)
	}
	return &pair, nil
}
