package auth

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"time"

	"github.com/berth-dev/berth/host/auth/authn"
	"github.com/berth-dev/berth/host/auth/authz"
	"github.com/berth-dev/berth/host/auth/bootstrap"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/auth/view"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authentication/user"
)

// Config says what authentication and authorization stand on. Dir and Objects
// are required.
type Config struct {
	// Dir is the host's data directory; the keys lie under DIR/pki.
	Dir string
	// Objects is the store; view.Of makes one of a *store.Store.
	Objects Objects
	// Issuer names the service account issuer; "" is Kubernetes' default.
	Issuer string
	Log    *slog.Logger
	// Now is the clock; nil is time.Now.
	Now func() time.Time
}

// Objects is the store as this room sees it, with the placement of pods.
type Objects interface {
	view.Store
	authz.Placement
}

// Auth is everything a host needs to know its callers.
type Auth struct {
	// Authority signs the host's certificate and those of clients.
	Authority *ca.Authority
	// Agents signs the certificates of the node agents' servers. It is another
	// one so that no machine can ever stand in for the host.
	Agents *ca.Authority
	// FrontProxy signs nothing but FrontProxyClient: servers behind the API believe
	// whom its clients name in headers.
	FrontProxy *ca.Authority
	// FrontProxyClient is the certificate that the host shows to them.
	FrontProxyClient *ca.Leaf
	// Access answers what somebody may do.
	Access *authz.Authorizer
	// AgentClient is the certificate that the host shows to node agents.
	AgentClient *ca.Leaf
	// Requests answers who somebody is, before impersonation.
	Requests *authn.Requests
	// Accounts makes and checks service account tokens.
	Accounts *serviceaccount.Issuer
	// Join answers POST join.Path; it authenticates by itself.
	Join http.Handler
	// Defaults sets up namespaces.
	Defaults *serviceaccount.Defaults

	secrets *serviceaccount.TokenSecrets
	config  Config
}

// Open reads or makes the keys, and creates in the store what every cluster
// has: default roles, system namespaces and their accounts, priority classes.
func Open(ctx context.Context, c Config) (*Auth, error) {
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	authority, err := ca.Open(filepath.Join(c.Dir, "pki"), "berth-ca", c.Now)
	if err != nil {
		return nil, err
	}
	agents, err := ca.Open(filepath.Join(c.Dir, "pki", "agents"), "berth-agents-ca", c.Now)
	if err != nil {
		return nil, err
	}
	agentClient, err := authority.Client("agent-client", ca.AgentClient)
	if err != nil {
		return nil, err
	}
	frontProxy, err := ca.Open(filepath.Join(c.Dir, "pki", "front-proxy"), "berth-front-proxy-ca", c.Now)
	if err != nil {
		return nil, err
	}
	frontProxyClient, err := frontProxy.Client("front-proxy-client", ca.FrontProxyClient)
	if err != nil {
		return nil, err
	}
	key, err := authority.SigningKey("sa")
	if err != nil {
		return nil, err
	}
	accounts, err := serviceaccount.NewIssuer(c.Objects, key, c.Issuer, c.Now)
	if err != nil {
		return nil, err
	}
	if err := authz.Bootstrap(ctx, c.Objects, c.Log, c.Now()); err != nil {
		return nil, err
	}
	requests := authn.NewRequests(c.Now, accounts, authn.NewBootstrap(c.Objects, c.Now))
	a := &Auth{
		Authority:        authority,
		Agents:           agents,
		AgentClient:      agentClient,
		FrontProxy:       frontProxy,
		FrontProxyClient: frontProxyClient,
		Access:           authz.New(c.Objects, c.Objects),
		Requests:         requests,
		Join: bootstrap.New(bootstrap.Config{
			Who: requests, Objects: c.Objects, Clients: authority, Servers: agents, Now: c.Now, Log: c.Log,
		}),
		Accounts: accounts,
		Defaults: serviceaccount.NewDefaults(c.Objects, authority.PEM(), c.Now),
		secrets:  serviceaccount.NewTokenSecrets(c.Objects, accounts, authority.PEM(), c.Now),
		config:   c,
	}
	if err := a.createDefaults(ctx); err != nil {
		return nil, err
	}
	return a, a.aggregate(ctx)
}

// NewToken makes a bootstrap token with which machines join, in the form that
// pins the authority: "ID.SECRET:sha256:HASH". A life of 0 never ends.
func (a *Auth) NewToken(ctx context.Context, life time.Duration, description string) (string, error) {
	token, err := authn.NewToken(ctx, a.config.Objects, life, description, a.config.Now())
	if err != nil {
		return "", err
	}
	return token + ":" + a.Authority.Hash(), nil
}

// AuthenticateRequest implements authenticator.Request: it tells who sent the
// request, and takes from it what proved it.
//
// # Errors
// 401 of the API. Why a credential did not hold is logged and not told.
func (a *Auth) AuthenticateRequest(r *http.Request) (*authenticator.Response, bool, error) {
	response, _, err := a.Requests.AuthenticateRequest(r)
	if err != nil {
		a.config.Log.Debug("unauthorized", "path", r.URL.Path, "from", r.RemoteAddr, "err", err)
		return nil, false, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	return &authenticator.Response{User: response.User}, true, nil
}

// Impersonate tells as whom the sender asks, which is the sender unless headers
// name another. It takes them from the request.
//
// # Errors
// Errors of the API, 400 or 403.
func (a *Auth) Impersonate(r *http.Request, sender user.Info) (user.Info, error) {
	who, err := authn.Impersonate(r.Context(), a.Access, sender, r.Header)
	switch {
	case errors.Is(err, authn.ErrMalformed):
		return nil, apierrors.NewBadRequest(err.Error())
	case err != nil:
		return nil, apierrors.NewForbidden(schema.GroupResource{}, "", err)
	}
	return who, nil
}

// aggregate fills the aggregated roles until they rest.
func (a *Auth) aggregate(ctx context.Context) error {
	for range 16 {
		changed, err := authz.Aggregate(ctx, a.config.Objects)
		if err != nil || !changed {
			return err
		}
	}
	return errors.New("the aggregated cluster roles feed each other without end: remove one of the aggregation rules")
}

// awaiter tells of changes; a view without it is looked at by the clock.
type awaiter interface {
	Await(ctx context.Context, resource string, since int64) error
}

// Run keeps namespaces set up, aggregated roles and Secrets of service accounts
// filled, and spent bootstrap tokens removed, until ctx ends.
func (a *Auth) Run(ctx context.Context) error {
	upkeep := map[string]func(context.Context) error{
		view.Namespaces:      a.Defaults.Restore,
		view.ServiceAccounts: a.keepAccounts,
		view.ConfigMaps:      a.Defaults.Restore,
		view.ClusterRoles:    a.aggregate,
		view.Secrets:         a.secrets.Sync,
	}
	done := make(chan error, len(upkeep))
	for resource, keep := range upkeep {
		go func() { done <- a.keep(ctx, resource, keep) }()
	}
	a.sweepTokens(ctx)
	var errs []error
	for range upkeep {
		errs = append(errs, <-done)
	}
	return errors.Join(errs...)
}

func (a *Auth) keepAccounts(ctx context.Context) error {
	return errors.Join(a.Defaults.Restore(ctx), a.secrets.Sync(ctx))
}

// keep calls fn at once and after each change of the resource, waiting a moment
// between two calls so that a burst of changes is one.
func (a *Auth) keep(ctx context.Context, resource string, fn func(context.Context) error) error {
	const moment = 250 * time.Millisecond
	for {
		seen := a.config.Objects.Version(resource)
		if err := fn(ctx); err != nil && ctx.Err() == nil {
			a.config.Log.Warn("upkeep", "resource", resource, "err", err)
		}
		if pause(ctx, moment) != nil {
			return nil
		}
		live, ok := a.config.Objects.(awaiter)
		if !ok {
			continue
		}
		if err := live.Await(ctx, resource, seen); err != nil {
			return nil
		}
	}
}

func (a *Auth) sweepTokens(ctx context.Context) {
	for {
		if err := authn.Sweep(ctx, a.config.Objects, a.config.Now()); err != nil && ctx.Err() == nil {
			a.config.Log.Warn("remove spent bootstrap tokens", "err", err)
		}
		if pause(ctx, time.Minute) != nil {
			return
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait: %w", ctx.Err())
	}
}
