package serviceaccount

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"

	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
)

// legacyIssuer is the issuer of the tokens that Secrets hold, in Kubernetes' words.
const legacyIssuer = "kubernetes/serviceaccount"

// invalidSince labels a Secret whose token is refused until the label is removed.
const invalidSince = "kubernetes.io/legacy-token-invalid-since"

// legacyClaims are what a token says that a Secret holds. It names no time and no
// audience: it is for the API, for as long as its Secret and account are there.
type legacyClaims struct {
	Issuer     string `json:"iss"`
	Subject    string `json:"sub"`
	Namespace  string `json:"kubernetes.io/serviceaccount/namespace"`
	Secret     string `json:"kubernetes.io/serviceaccount/secret.name"`
	Account    string `json:"kubernetes.io/serviceaccount/service-account.name"`
	AccountUID string `json:"kubernetes.io/serviceaccount/service-account.uid"`
}

// legacyToken makes the token that secret is to hold.
func (i *Issuer) legacyToken(secret *corev1.Secret, account *corev1.ServiceAccount) (string, error) {
	return i.signer.sign(&legacyClaims{
		Issuer:     legacyIssuer,
		Subject:    serviceaccount.MakeUsername(account.Namespace, account.Name),
		Namespace:  account.Namespace,
		Secret:     secret.Name,
		Account:    account.Name,
		AccountUID: string(account.UID),
	})
}

func (i *Issuer) verifyLegacy(token string) (*claims, error) {
	l := &legacyClaims{}
	if err := i.signer.verify(token, legacyIssuer, l); err != nil {
		return nil, err
	}
	return &claims{
		Issuer:   legacyIssuer,
		Subject:  l.Subject,
		Audience: i.audiences,
		Kubernetes: private{
			Namespace: l.Namespace,
			Account:   ref{Name: l.Account, UID: l.AccountUID},
			Secret:    &ref{Name: l.Secret},
		},
	}, nil
}

// legacyHolds checks that the Secret still holds this very token, and that its
// account is still the one that it was made for. Neither may be about to go.
func (i *Issuer) legacyHolds(ctx context.Context, c *claims, token string) error {
	k := &c.Kubernetes
	secret, err := view.Get[*corev1.Secret](ctx, i.objects, view.Secrets, k.Namespace, k.Secret.Name)
	if err != nil {
		return fmt.Errorf("the token has been invalidated: %w", err)
	}
	if secret.DeletionTimestamp != nil || secret.Labels[invalidSince] != "" {
		return errors.New("the token has been invalidated")
	}
	held := secret.Data[corev1.ServiceAccountTokenKey]
	if secret.Type != corev1.SecretTypeServiceAccountToken || subtle.ConstantTimeCompare(held, []byte(token)) == 0 {
		return fmt.Errorf("the token is not the one that Secret %s holds", secret.Name)
	}
	account, err := view.Get[*corev1.ServiceAccount](ctx, i.objects, view.ServiceAccounts, k.Namespace, k.Account.Name)
	if err != nil {
		return fmt.Errorf("the token has been invalidated: %w", err)
	}
	if account.DeletionTimestamp != nil || string(account.UID) != k.Account.UID {
		return fmt.Errorf("the token has been invalidated: its ServiceAccount %s is gone", account.Name)
	}
	return nil
}
