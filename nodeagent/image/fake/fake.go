// Package fake is an image store without a registry, for tests.
package fake

import (
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Store is the fake; call New.
type Store struct {
	// Remote says how a pull of a name ends. Nil: every name is there for
	// anybody.
	Remote func(ref string, creds []image.Credential) (image.Config, error)
	// Delay is how long a pull takes.
	Delay time.Duration

	mu     sync.Mutex
	images map[string]image.Image
	pulls  []string
}

// New gives an empty store.
func New() *Store { return &Store{images: map[string]image.Image{}} }

// SetRemote changes Remote while pods run.
func (s *Store) SetRemote(remote func(ref string, creds []image.Credential) (image.Config, error)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Remote = remote
}

// Pulls lists the names that were pulled.
func (s *Store) Pulls() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pulls)
}

// Get implements image.Store.
func (s *Store) Get(ctx context.Context, ref string) (image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if img, ok := s.images[ref]; ok {
		return img, nil
	}
	full, err := image.Normalize(ref)
	if err != nil {
		return image.Image{}, err
	}
	for _, img := range s.images {
		if slices.Contains(img.Names, full) || slices.Contains(img.Digests, full) {
			return img, nil
		}
	}
	return image.Image{}, fmt.Errorf("%s: %w", ref, image.ErrNotFound)
}

// Pull implements image.Store.
func (s *Store) Pull(ctx context.Context, ref string, creds []image.Credential, _ func(image.Progress)) (image.Image, error) {
	full, err := image.Normalize(ref)
	if err != nil {
		return image.Image{}, err
	}
	s.mu.Lock()
	s.pulls = append(s.pulls, ref)
	remote := s.Remote
	s.mu.Unlock()
	if s.Delay > 0 {
		select {
		case <-time.After(s.Delay):
		case <-ctx.Done():
			return image.Image{}, ctx.Err()
		}
	}
	var cfg image.Config
	if remote != nil {
		if cfg, err = remote(ref, creds); err != nil {
			return image.Image{}, fmt.Errorf("pull %s: %w", full, err)
		}
	}
	return s.put(full, cfg), nil
}

func (s *Store) put(full string, cfg image.Config) image.Image {
	digest := fmt.Sprintf("sha256:%x", sha256.Sum256([]byte(full)))
	img := image.Image{ID: digest, Size: 1 << 20, Config: cfg, PulledAt: time.Now()}
	if strings.Contains(full, "@") {
		img.Digests = []string{full}
	} else {
		img.Names = []string{full}
		img.Digests = []string{full[:strings.LastIndex(full, ":")] + "@" + digest}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.images[img.ID] = img
	return img
}

// List implements image.Store.
func (s *Store) List(ctx context.Context) ([]image.Image, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []image.Image
	for _, img := range s.images {
		out = append(out, img)
	}
	return out, nil
}

// Remove implements image.Store.
func (s *Store) Remove(ctx context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.images, id)
	return nil
}

// Import implements image.Store: the archive is the image's name.
func (s *Store) Import(ctx context.Context, archive io.Reader) ([]image.Image, error) {
	name, err := io.ReadAll(io.LimitReader(archive, 512))
	if err != nil {
		return nil, err
	}
	full, err := image.Normalize(string(name))
	if err != nil {
		return nil, fmt.Errorf("import: %w", image.ErrInvalidImage)
	}
	return []image.Image{s.put(full, image.Config{})}, nil
}

// Filesystem implements image.Store.
func (s *Store) Filesystem(ctx context.Context) (image.Usage, error) {
	return image.Usage{Capacity: 100 << 30, Available: 90 << 30, Used: 10 << 30, Inodes: 1 << 20, InodesFree: 1 << 19}, nil
}
