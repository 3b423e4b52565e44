package authn

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/asn1"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/request/websocket"
	"k8s.io/apiserver/pkg/authentication/user"
)

// ErrUnauthorized is what every refused credential is; the text behind it is
// for the log and not for the client.
var ErrUnauthorized = errors.New("unauthorized")

// ErrUnknown is a token that no kind claims as its own.
var ErrUnknown = errors.New("the token is of no known kind")

// Tokens is one kind of bearer token. It answers ok=false to a token of another
// kind and an error to one of its own kind that does not hold.
type Tokens interface {
	AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error)
}

// Requests tells who sent a request. It implements authenticator.Request.
type Requests struct {
	tokens  []Tokens
	now     func() time.Time
	sockets *websocket.ProtocolAuthenticator
}

// NewRequests asks the kinds of tokens in order.
func NewRequests(now func() time.Time, tokens ...Tokens) *Requests {
	a := &Requests{tokens: tokens, now: now}
	// A browser cannot set the header Authorization on a WebSocket, but it can name
	// a protocol.
	a.sockets = websocket.NewProtocolAuthenticator(a)
	return a
}

var _ authenticator.Request = (*Requests)(nil)

// AuthenticateRequest implements authenticator.Request. A client certificate
// counts before a bearer token, as in Kubernetes.
//
// # Errors
// ErrUnauthorized, wrapped with the reason.
func (a *Requests) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		return a.certificate(r.TLS.VerifiedChains)
	}
	response, ok, err := a.shown(r)
	if err != nil {
		return nil, false, fmt.Errorf("%w: %w", ErrUnauthorized, err)
	}
	if ok {
		return response, true, nil
	}
	if public(r.URL.Path) && readOnly(r.Method) {
		return &authenticator.Response{User: anonymous}, true, nil
	}
	return nil, false, fmt.Errorf("%w: no credentials", ErrUnauthorized)
}

// shown is who showed a token; not ok showed none.
func (a *Requests) shown(r *http.Request) (*authenticator.Response, bool, error) {
	text := r.Header.Get("Authorization")
	if text == "" {
		return a.sockets.AuthenticateRequest(r)
	}
	scheme, token, _ := strings.Cut(text, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return nil, false, errors.New("the Authorization header is no bearer token")
	}
	return a.AuthenticateToken(r.Context(), token)
}

// certificate believes the handshake, which verified the chain against the
// authority and for client use; only the time has moved on since.
func (a *Requests) certificate(chains [][]*x509.Certificate) (*authenticator.Response, bool, error) {
	if len(chains) == 0 || len(chains[0]) == 0 {
		return nil, false, fmt.Errorf("%w: the client certificate is not verified", ErrUnauthorized)
	}
	for _, cert := range chains[0] {
		if a.now().After(cert.NotAfter) {
			return nil, false, fmt.Errorf("%w: the certificate of %q has expired", ErrUnauthorized, cert.Subject.CommonName)
		}
	}
	leaf := chains[0][0]
	if leaf.Subject.CommonName == "" {
		return nil, false, fmt.Errorf("%w: the client certificate names nobody", ErrUnauthorized)
	}
	uid, err := uidOf(leaf)
	if err != nil {
		return nil, false, fmt.Errorf("%w: the certificate of %q: %w", ErrUnauthorized, leaf.Subject.CommonName, err)
	}
	return known(&user.DefaultInfo{Name: leaf.Subject.CommonName, UID: uid, Groups: leaf.Subject.Organization}), true, nil
}

// uidOf is the UID that a certificate's subject names by Kubernetes' attribute for
// it, "" where it names none.
func uidOf(leaf *x509.Certificate) (uid string, err error) {
	for _, attribute := range leaf.Subject.Names {
		if !attribute.Type.Equal(asn1.X509UID()) {
			continue
		}
		text, _ := attribute.Value.(string)
		if text == "" || uid != "" {
			return "", errors.New("its UID must be one text that is not empty")
		}
		uid = text
	}
	return uid, nil
}

// AuthenticateToken asks the kinds of tokens in order, for a request or a
// TokenReview.
//
// # Errors
// ErrUnknown, or why a kind does not believe a token of its own.
func (a *Requests) AuthenticateToken(ctx context.Context, token string) (*authenticator.Response, bool, error) {
	if len(token) > maxToken {
		return nil, false, errors.New("the token is too long")
	}
	for _, kind := range a.tokens {
		response, ok, err := kind.AuthenticateToken(ctx, token)
		if err != nil {
			return nil, false, err
		}
		if ok {
			response.User = known(response.User).User
			return response, true, nil
		}
	}
	return nil, false, ErrUnknown
}

// maxToken bounds a bearer token; a service account's has about 1 KB.
const maxToken = 16 << 10

// known adds the group of everybody who showed a credential.
func known(info user.Info) *authenticator.Response {
	groups := info.GetGroups()
	if slices.Contains(groups, user.AllAuthenticated) {
		return &authenticator.Response{User: info}
	}
	return &authenticator.Response{User: &user.DefaultInfo{
		Name:   info.GetName(),
		UID:    info.GetUID(),
		Groups: append(slices.Clip(groups), user.AllAuthenticated),
		Extra:  info.GetExtra(),
	}}
}

var anonymous = &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}

// public tells what anybody may see. The path is compared as it came: one with
// dots or double slashes in it is not public.
func public(path string) bool {
	if path == "/version" || path == "/version/" {
		return true
	}
	for _, root := range []string{"/healthz", "/livez", "/readyz"} {
		rest, ok := strings.CutPrefix(path, root)
		if ok && (rest == "" || plainCheck(rest)) {
			return true
		}
	}
	return false
}

// plainCheck is true for "/name" of a single health check.
func plainCheck(rest string) bool {
	name, ok := strings.CutPrefix(rest, "/")
	return ok && strings.IndexFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_'
	}) < 0
}

func readOnly(method string) bool { return method == http.MethodGet || method == http.MethodHead }
