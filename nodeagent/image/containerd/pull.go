package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Pull implements image.Store.
func (s *Store) Pull(ctx context.Context, ref string, creds []image.Credential) (image.Image, error) {
	ctx = s.with(ctx)
	name, err := image.Normalize(ref)
	if err != nil {
		return image.Image{}, err
	}
	if len(creds) == 0 {
		creds = []image.Credential{{}}
	}
	var last error
	for _, cred := range creds {
		img, err := s.pull(ctx, name, cred)
		if err == nil {
			return img, nil
		}
		last = fmt.Errorf("pull %s: %w", name, err)
		if !errors.Is(err, image.ErrUnauthorized) {
			break
		}
	}
	return image.Image{}, last
}

func (s *Store) pull(ctx context.Context, name string, cred image.Credential) (image.Image, error) {
	resolver := &noting{Resolver: newResolver(cred)}
	_, err := s.cfg.Client.Pull(ctx, name,
		client.WithResolver(resolver),
		client.WithPullUnpack,
		client.WithPullSnapshotter(s.cfg.Snapshotter),
	)
	if err != nil {
		if ctx.Err() != nil {
			return image.Image{}, ctx.Err()
		}
		return image.Image{}, fmt.Errorf("%w: %w", kind(err, resolver.resolved), err)
	}
	return s.adopt(ctx, name)
}

// newResolver finds a registry as docker does: by TLS, except on loopback.
func newResolver(cred image.Credential) remotes.Resolver {
	header := http.Header{}
	if cred.RegistryToken != "" {
		header.Set("Authorization", "Bearer "+cred.RegistryToken)
	}
	authorizer := docker.NewDockerAuthorizer(docker.WithAuthHeader(header), docker.WithAuthCreds(func(string) (string, string, error) {
		if cred.IdentityToken != "" {
			return "", cred.IdentityToken, nil
		}
		return cred.Username, cred.Password, nil
	}))
	return docker.NewResolver(docker.ResolverOptions{
		Headers: header,
		Hosts: docker.ConfigureDefaultRegistries(
			docker.WithAuthorizer(authorizer),
			docker.WithPlainHTTP(docker.MatchLocalhost),
		),
	})
}

// noting remembers whether the registry knew the name, since "not found" has
// another meaning after that.
type noting struct {
	remotes.Resolver
	resolved bool
}

func (n *noting) Resolve(ctx context.Context, ref string) (string, ocispec.Descriptor, error) {
	name, desc, err := n.Resolver.Resolve(ctx, ref)
	n.resolved = n.resolved || err == nil
	return name, desc, err
}

// kind sorts what went wrong with a pull.
func kind(err error, resolved bool) error {
	var (
		unexpected remoteerrors.ErrUnexpectedStatus
		netErr     net.Error
		urlErr     *url.Error
	)
	switch {
	case errors.Is(err, docker.ErrInvalidAuthorization), errdefs.IsUnauthorized(err), errdefs.IsPermissionDenied(err):
		return image.ErrUnauthorized
	case errors.As(err, &unexpected):
		return kindOfStatus(unexpected.StatusCode)
	case errdefs.IsNotFound(err) && !resolved:
		return image.ErrNotFound
	case errors.As(err, &netErr), errors.As(err, &urlErr), errdefs.IsUnavailable(err):
		return image.ErrUnavailable
	case !resolved:
		return image.ErrUnavailable
	}
	return image.ErrInvalidImage
}

func kindOfStatus(code int) error {
	switch {
	case code == http.StatusUnauthorized, code == http.StatusForbidden:
		return image.ErrUnauthorized
	case code == http.StatusNotFound:
		return image.ErrNotFound
	case code == http.StatusTooManyRequests, code >= 500:
		return image.ErrUnavailable
	}
	return image.ErrInvalidImage
}
