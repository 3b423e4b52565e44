package authn

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

// Sweep removes bootstrap tokens whose time is over.
func Sweep(ctx context.Context, objects view.Store, now time.Time) error {
	secrets, err := view.List[*corev1.Secret](ctx, objects, view.Secrets, metav1.NamespaceSystem)
	if err != nil {
		return fmt.Errorf("look for spent bootstrap tokens: %w", err)
	}
	for _, secret := range secrets {
		expires, err := time.Parse(time.RFC3339, string(secret.Data["expiration"]))
		if secret.Type != secretType || err != nil || now.Before(expires) {
			continue
		}
		_, err = objects.Commit(ctx, store.Op{Kind: store.Delete, Key: view.KeyOf(view.Secrets, secret)})
		if err != nil && !errors.Is(err, store.ErrNotFound) {
			return fmt.Errorf("remove a spent bootstrap token: %w", err)
		}
	}
	return nil
}
