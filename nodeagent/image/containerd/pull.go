package containerd

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/remotes"
	"github.com/containerd/containerd/v2/core/remotes/docker"
	"github.com/containerd/containerd/v2/core/remotes/docker/config"
	remoteerrors "github.com/containerd/containerd/v2/core/remotes/errors"
	"github.com/containerd/errdefs"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Pull implements image.Store.
func (s *Store) Pull(ctx context.Context, ref string, creds []image.Credential, progress func(image.Progress)) (image.Image, error) {
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
		img, err := s.pull(ctx, name, cred, progress)
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

func (s *Store) pull(ctx context.Context, name string, cred image.Credential, progress func(image.Progress)) (image.Image, error) {
	m := new(meter)
	resolver := &noting{Resolver: s.newResolver(ctx, cred, m)}
	// The watch and the pull end each other: one by its error, the other by its end.
	pulling, cancel := context.WithCancelCause(ctx)
	watched := make(chan error, 1)
	go func() {
		err := m.watch(pulling, s.cfg.Stalled, progress)
		cancel(err)
		watched <- err
	}()
	_, err := s.cfg.Client.Pull(pulling, name,
		client.WithResolver(resolver),
		client.WithPullUnpack,
		client.WithPullSnapshotter(s.cfg.Snapshotter),
		client.WithImageHandler(s.expect(m)),
	)
	cancel(nil)
	stalled := <-watched
	switch {
	case err == nil:
		return s.adopt(ctx, name)
	case ctx.Err() != nil:
		return image.Image{}, ctx.Err()
	case stalled != nil:
		return image.Image{}, fmt.Errorf("%w: %w", image.ErrUnavailable, stalled)
	}
	return image.Image{}, fmt.Errorf("%w: %w", kind(err, resolver.resolved), err)
}

// expect adds up what is to come: what the manifests name and is not here yet.
func (s *Store) expect(m *meter) images.Handler {
	return images.HandlerFunc(func(ctx context.Context, desc ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if _, err := s.cfg.Client.ContentStore().Info(ctx, desc.Digest); errdefs.IsNotFound(err) {
			m.total.Add(desc.Size)
		}
		return nil, nil
	})
}

// newResolver finds a registry by what HostsDir says of it, and else as docker
// does: by TLS, except on loopback.
func (s *Store) newResolver(ctx context.Context, cred image.Credential, m *meter) remotes.Resolver {
	header := http.Header{}
	if cred.RegistryToken != "" {
		header.Set("Authorization", "Bearer "+cred.RegistryToken)
	}
	options := config.HostOptions{
		Credentials: func(string) (string, string, error) {
			if cred.IdentityToken != "" {
				return "", cred.IdentityToken, nil
			}
			return cred.Username, cred.Password, nil
		},
		UpdateClient:   m.measure,
		AuthorizerOpts: []docker.AuthorizerOpt{docker.WithAuthHeader(header)},
	}
	if s.cfg.HostsDir != "" {
		options.HostDir = hostDir(s.cfg.HostsDir)
	}
	return docker.NewResolver(docker.ResolverOptions{Headers: header, Hosts: config.ConfigureHosts(ctx, options)})
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
