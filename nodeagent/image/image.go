package image

import (
	"context"
	"errors"
	"io"
	"time"
)

// Fixed kinds of failure; wrap them, branch by errors.Is.
var (
	// ErrNotFound: the registry, or for Get the machine, has no such image.
	ErrNotFound = errors.New("image not found")
	// ErrUnauthorized: the registry wants other credentials.
	ErrUnauthorized = errors.New("unauthorized")
	// ErrUnavailable: the registry did not answer; try again later.
	ErrUnavailable = errors.New("registry unavailable")
	// ErrInvalidName: not an image name.
	ErrInvalidName = errors.New("invalid image name")
	// ErrInvalidImage: broken content, or none for this platform.
	ErrInvalidImage = errors.New("invalid image")
)

// Store holds the machine's images.
type Store interface {
	// Get finds a present image by name in any form (short, full, with digest)
	// or by ID.
	Get(ctx context.Context, ref string) (Image, error)
	// Pull fetches an image. The credentials are tried in order; with none it
	// is asked anonymously. Progress, unless nil, is told about once a second.
	Pull(ctx context.Context, ref string, creds []Credential, progress func(Progress)) (Image, error)
	// List gives all images, in no order.
	List(ctx context.Context) ([]Image, error)
	// Remove removes an image by ID with all its names; absent is removed.
	Remove(ctx context.Context, id string) error
	// Import loads an OCI or docker archive and gives what it held.
	Import(ctx context.Context, archive io.Reader) ([]Image, error)
	// Filesystem measures the disk that images and root filesystems lie on.
	Filesystem(ctx context.Context) (Usage, error)
}

// Image is one image that is present and can be run.
type Image struct {
	// ID is the digest of its configuration, "sha256:…".
	ID string
	// Names are full tagged names ("docker.io/library/busybox:1"), Digests full
	// names with digest.
	Names, Digests []string
	// Size in bytes on disk.
	Size int64
	// Pinned images are never collected (pause).
	Pinned bool
	Config Config
	// PulledAt is when it came to the machine, if known.
	PulledAt time.Time
}

// Config is what an image says about how to run it.
type Config struct {
	Env        []string
	Entrypoint []string
	Cmd        []string
	WorkDir    string
	User       string
	StopSignal string
	// Volumes are paths for which the image wants storage of its own.
	Volumes []string
}

// Credential opens a registry: a pair, or a bearer token.
type Credential struct {
	Username, Password string
	IdentityToken      string
	RegistryToken      string
	// Node says that it is the machine's own: what it pulls is for all pods.
	Node bool `json:"-"`
}

// Keyring has the machine's own credentials.
type Keyring interface {
	// Credentials are those that fit an image. Those that could be had are
	// returned beside an error about the others.
	Credentials(ctx context.Context, ref string) ([]Credential, error)
}

// Progress is how far a pull is: bytes that came of those that are to come. The
// total grows as manifests are read.
type Progress struct{ Done, Total int64 }

// Usage of a filesystem in bytes.
type Usage struct {
	Capacity, Available, Used int64
	InodesFree, Inodes        int64
}
