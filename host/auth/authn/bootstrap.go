package authn

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/auth/view"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// What a bootstrap token is, by Kubernetes' convention: a Secret of this type
// in kube-system, named after the public half of the token.
const (
	secretType          = "bootstrap.kubernetes.io/token"
	secretPrefix        = "bootstrap-token-"
	bootstrapUserPrefix = "system:bootstrap:"
	// BootstrapGroup holds everybody who comes with a bootstrap token.
	BootstrapGroup = "system:bootstrappers"
	extraPrefix    = "system:bootstrappers:"
)

var tokenForm = regexp.MustCompile(`^([a-z0-9]{6})\.([a-z0-9]{16})$`)

// NewToken makes a bootstrap token which lets machines join until life is over
// (0: for ever), stores it and returns its text, "ID.SECRET". The secret half
// can be read again only from the Secret.
func NewToken(ctx context.Context, objects view.Store, life time.Duration, description string, now time.Time) (string, error) {
	token, secret, err := TokenSecret(life, description, now)
	if err != nil {
		return "", err
	}
	if _, err := objects.Commit(ctx, view.Fresh(view.Secrets, secret, now)); err != nil {
		return "", fmt.Errorf("store the bootstrap token: %w", err)
	}
	return token, nil
}

// TokenSecret makes a token and the Secret that makes it hold, for those who
// store it by way of the API.
func TokenSecret(life time.Duration, description string, now time.Time) (token string, secret *corev1.Secret, err error) {
	id, err := randomText(6)
	if err != nil {
		return "", nil, err
	}
	key, err := randomText(16)
	if err != nil {
		return "", nil, err
	}
	secret = &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: secretPrefix + id},
		Type:       secretType,
		Data: map[string][]byte{
			"token-id":                       []byte(id),
			"token-secret":                   []byte(key),
			"usage-bootstrap-authentication": []byte("true"),
		},
	}
	if description != "" {
		secret.Data["description"] = []byte(description)
	}
	if life > 0 {
		secret.Data["expiration"] = []byte(now.Add(life).UTC().Format(time.RFC3339))
	}
	return id + "." + key, secret, nil
}

// randomText draws lower-case letters and digits, without bias.
func randomText(n int) (string, error) {
	const alphabet = "abcdefghijklmnopqrstuvwxyz0123456789"
	text := make([]byte, 0, n)
	buf := make([]byte, 2*n)
	for len(text) < n {
		if _, err := rand.Read(buf); err != nil {
			return "", fmt.Errorf("make a token: %w", err)
		}
		for _, b := range buf {
			if int(b) < 256-256%len(alphabet) && len(text) < n {
				text = append(text, alphabet[int(b)%len(alphabet)])
			}
		}
	}
	return string(text), nil
}

// Bootstrap authenticates machines that join.
type Bootstrap struct {
	objects view.Objects
	now     func() time.Time
}

// NewBootstrap reads the tokens from the Secrets.
func NewBootstrap(objects view.Objects, now func() time.Time) *Bootstrap {
	return &Bootstrap{objects: objects, now: now}
}

// AuthenticateToken implements Tokens.
func (b *Bootstrap) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	parts := tokenForm.FindStringSubmatch(token)
	if parts == nil {
		return nil, false, nil
	}
	id, secret := parts[1], parts[2]
	obj, err := view.Get[*corev1.Secret](ctx, b.objects, view.Secrets, metav1.NamespaceSystem, secretPrefix+id)
	if err != nil && !view.Missing(err) {
		return nil, false, fmt.Errorf("look up the bootstrap token %s: %w", id, err)
	}
	if err != nil {
		return nil, false, fmt.Errorf("there is no bootstrap token %s", id)
	}
	groups, err := b.check(obj, id, secret)
	if err != nil {
		return nil, false, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	return &authenticator.Response{User: &user.DefaultInfo{Name: bootstrapUserPrefix + id, Groups: groups}}, true, nil
}

func (b *Bootstrap) check(obj *corev1.Secret, id, secret string) (groups []string, err error) {
	if obj.Type != secretType || obj.DeletionTimestamp != nil {
		return nil, errors.New("is not valid any more")
	}
	idMatches := subtle.ConstantTimeCompare(obj.Data["token-id"], []byte(id))
	if subtle.ConstantTimeCompare(obj.Data["token-secret"], []byte(secret))&idMatches != 1 {
		return nil, errors.New("the secret half is wrong")
	}
	if text, ok := obj.Data["expiration"]; ok {
		expires, err := time.Parse(time.RFC3339, string(text))
		if err != nil {
			return nil, errors.New("its expiration is no RFC 3339 time")
		}
		if !b.now().Before(expires) {
			return nil, errors.New("has expired")
		}
	}
	if string(obj.Data["usage-bootstrap-authentication"]) != "true" {
		return nil, errors.New("is not meant for authentication")
	}
	return bootstrapGroups(string(obj.Data["auth-extra-groups"]))
}

func bootstrapGroups(extra string) ([]string, error) {
	groups := []string{BootstrapGroup}
	if extra == "" {
		return groups, nil
	}
	for group := range strings.SplitSeq(extra, ",") {
		if !strings.HasPrefix(group, extraPrefix) || len(group) == len(extraPrefix) {
			return nil, fmt.Errorf("its extra group %q does not start with %s", group, extraPrefix)
		}
		groups = append(groups, group)
	}
	return groups, nil
}
