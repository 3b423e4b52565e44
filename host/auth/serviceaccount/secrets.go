package serviceaccount

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/store"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TokenSecrets keeps the Secrets of type kubernetes.io/service-account-token:
// each gets a token of the account that it names in its own namespace, and goes
// with that account.
//
// Source: k8s.io/kubernetes 1.36, pkg/controller/serviceaccount/tokens_controller.go.
type TokenSecrets struct {
	objects view.Store
	issuer  *Issuer
	root    []byte
	now     func() time.Time
}

// NewTokenSecrets writes tokens of issuer, and root, a certificate in PEM.
func NewTokenSecrets(objects view.Store, issuer *Issuer, root []byte, now func() time.Time) *TokenSecrets {
	return &TokenSecrets{objects: objects, issuer: issuer, root: root, now: now}
}

// Sync fills what lacks something, and removes what has no account.
func (s *TokenSecrets) Sync(ctx context.Context) error {
	secrets, err := view.List[*corev1.Secret](ctx, s.objects, view.Secrets, "")
	if err != nil {
		return fmt.Errorf("look for Secrets of service accounts: %w", err)
	}
	var errs []error
	for _, secret := range secrets {
		if secret.Type != corev1.SecretTypeServiceAccountToken || secret.DeletionTimestamp != nil {
			continue
		}
		if err := s.sync(ctx, secret); err != nil {
			errs = append(errs, fmt.Errorf("sync Secret %s/%s: %w", secret.Namespace, secret.Name, err))
		}
	}
	return errors.Join(errs...)
}

func (s *TokenSecrets) sync(ctx context.Context, secret *corev1.Secret) error {
	account, err := view.Get[*corev1.ServiceAccount](ctx, s.objects, view.ServiceAccounts, secret.Namespace, secret.Annotations[corev1.ServiceAccountNameKey])
	if view.Missing(err) {
		return s.remove(ctx, secret)
	}
	if err != nil {
		return err
	}
	if uid := secret.Annotations[corev1.ServiceAccountUIDKey]; uid != "" && uid != string(account.UID) {
		return s.remove(ctx, secret)
	}
	return s.fill(ctx, secret, account)
}

// fill writes what the Secret lacks. One that is immutable stays as it is.
func (s *TokenSecrets) fill(ctx context.Context, secret *corev1.Secret, account *corev1.ServiceAccount) error {
	full := string(secret.Data[corev1.ServiceAccountRootCAKey]) == string(s.root) &&
		len(secret.Data[corev1.ServiceAccountNamespaceKey]) > 0 && len(secret.Data[corev1.ServiceAccountTokenKey]) > 0
	if full || secret.Immutable != nil && *secret.Immutable {
		return nil
	}
	next := secret.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	next.Data[corev1.ServiceAccountRootCAKey] = s.root
	if len(next.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		next.Data[corev1.ServiceAccountNamespaceKey] = []byte(secret.Namespace)
	}
	if len(next.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := s.issuer.legacyToken(secret, account)
		if err != nil {
			return err
		}
		next.Data[corev1.ServiceAccountTokenKey] = []byte(token)
	}
	next.Annotations[corev1.ServiceAccountUIDKey] = string(account.UID)
	return s.commit(ctx, store.Op{Kind: store.Update, Key: view.KeyOf(view.Secrets, next), Object: next, Expect: view.Revision(secret)})
}

// remove deletes the Secret, or marks it as deleted where finalizers hold it.
func (s *TokenSecrets) remove(ctx context.Context, secret *corev1.Secret) error {
	op := store.Op{Kind: store.Delete, Key: view.KeyOf(view.Secrets, secret), Expect: view.Revision(secret)}
	if len(secret.Finalizers) > 0 {
		marked := secret.DeepCopy()
		gone, grace := metav1.NewTime(s.now()), int64(0)
		marked.DeletionTimestamp, marked.DeletionGracePeriodSeconds = &gone, &grace
		op.Kind, op.Object = store.Update, marked
	}
	return s.commit(ctx, op)
}

func (s *TokenSecrets) commit(ctx context.Context, op store.Op) error {
	_, err := s.objects.Commit(ctx, op)
	if view.Missing(err) || errors.Is(err, store.ErrConflict) {
		return nil // somebody else was faster; its change wakes us again
	}
	return err
}
