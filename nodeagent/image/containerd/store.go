package containerd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sort"
	"strings"
	"sync"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"github.com/containerd/errdefs"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Config says where images are.
type Config struct {
	Client      *client.Client
	Snapshotter string
	// Root is a folder on the disk that the images are on.
	Root string
	// HostsDir says by HOST/hosts.toml how registries are reached, as containerd
	// has it (/etc/containerd/certs.d); empty: by TLS, each by itself.
	HostsDir string
	// Stalled is after how long a pull ends to which nothing came; 5 min unless set.
	Stalled time.Duration
	Log     *slog.Logger
}

// Store is an image.Store.
type Store struct {
	cfg Config

	mu    sync.Mutex
	known map[digest.Digest]details // by the digest of the image's target
}

// details of an image, which never change.
type details struct {
	id     string
	size   int64
	config image.Config
}

// New gives the store of a containerd.
func New(cfg Config) *Store {
	if cfg.Stalled == 0 {
		cfg.Stalled = 5 * time.Minute
	}
	return &Store{cfg: cfg, known: map[digest.Digest]details{}}
}

// with puts containerd's namespace into a context.
func (s *Store) with(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, s.cfg.Client.DefaultNamespace())
}

// labelPinned marks images that are never collected.
const labelPinned = "berth.dev/pinned"

// Get implements image.Store.
func (s *Store) Get(ctx context.Context, ref string) (image.Image, error) {
	ctx = s.with(ctx)
	name := ref
	if !isID(ref) {
		var err error
		if name, err = image.Normalize(ref); err != nil {
			return image.Image{}, err
		}
	}
	found, err := s.cfg.Client.ImageService().Get(ctx, name)
	if errdefs.IsNotFound(err) {
		return image.Image{}, fmt.Errorf("%s: %w on this machine", ref, image.ErrNotFound)
	}
	if err != nil {
		return image.Image{}, fmt.Errorf("look for image %s: %w", ref, err)
	}
	d, err := s.details(ctx, found)
	if err != nil {
		return image.Image{}, fmt.Errorf("look at image %s: %w", ref, err)
	}
	all, err := s.List(ctx)
	if err != nil {
		return image.Image{}, err
	}
	for _, img := range all {
		if img.ID == d.id {
			return img, nil
		}
	}
	return image.Image{}, fmt.Errorf("%s: %w on this machine", ref, image.ErrNotFound)
}

// isID tells IDs from names.
func isID(ref string) bool {
	return strings.HasPrefix(ref, "sha256:") && digest.Digest(ref).Validate() == nil
}

// List implements image.Store. What is not complete, such as an image that is
// being pulled, is left out.
func (s *Store) List(ctx context.Context) ([]image.Image, error) {
	ctx = s.with(ctx)
	records, err := s.cfg.Client.ImageService().List(ctx)
	if err != nil {
		return nil, fmt.Errorf("list images: %w", err)
	}
	byID := map[string]*image.Image{}
	present := map[string]bool{}
	for _, rec := range records {
		d, err := s.details(ctx, rec)
		if err != nil {
			s.cfg.Log.Debug("image is not complete", "image", rec.Name, "err", err)
			continue
		}
		img := byID[d.id]
		if img == nil {
			img = &image.Image{ID: d.id, Size: d.size, Config: d.config}
			byID[d.id] = img
		}
		if rec.Name == d.id {
			present[d.id] = true
		}
		addName(img, rec)
	}
	var out []image.Image
	for id, img := range byID {
		if present[id] {
			sort.Strings(img.Names)
			sort.Strings(img.Digests)
			out = append(out, *img)
		}
	}
	return out, nil
}

func addName(img *image.Image, rec images.Image) {
	if img.PulledAt.IsZero() || rec.CreatedAt.Before(img.PulledAt) {
		img.PulledAt = rec.CreatedAt
	}
	img.Pinned = img.Pinned || rec.Labels[labelPinned] == "true"
	switch {
	case isID(rec.Name):
	case strings.Contains(rec.Name, "@"):
		img.Digests = append(img.Digests, rec.Name)
	default:
		img.Names = append(img.Names, rec.Name)
	}
}

// details reads an image's configuration, once for each content.
func (s *Store) details(ctx context.Context, rec images.Image) (details, error) {
	s.mu.Lock()
	d, ok := s.known[rec.Target.Digest]
	s.mu.Unlock()
	if ok {
		return d, nil
	}
	img := client.NewImage(s.cfg.Client, rec)
	config, err := img.Config(ctx)
	if err != nil {
		return details{}, err
	}
	spec, err := img.Spec(ctx)
	if err != nil {
		return details{}, err
	}
	unpacked, err := img.IsUnpacked(ctx, s.cfg.Snapshotter)
	if err != nil {
		return details{}, err
	}
	if !unpacked {
		return details{}, errors.New("not unpacked")
	}
	size, err := img.Usage(ctx, client.WithSnapshotUsage())
	if err != nil {
		return details{}, err
	}
	d = details{id: config.Digest.String(), size: size, config: configOf(spec.Config)}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.known[rec.Target.Digest] = d
	return d, nil
}

func configOf(c ocispec.ImageConfig) image.Config {
	out := image.Config{
		Env: c.Env, Entrypoint: c.Entrypoint, Cmd: c.Cmd, WorkDir: c.WorkingDir, User: c.User, StopSignal: c.StopSignal,
	}
	for path := range c.Volumes {
		out.Volumes = append(out.Volumes, path)
	}
	sort.Strings(out.Volumes)
	return out
}

// adopt records an image, whose content is there, under its ID and its digest.
func (s *Store) adopt(ctx context.Context, name string) (image.Image, error) {
	rec, err := s.cfg.Client.ImageService().Get(ctx, name)
	if err != nil {
		return image.Image{}, err
	}
	img := client.NewImage(s.cfg.Client, rec)
	unpacked, err := img.IsUnpacked(ctx, s.cfg.Snapshotter)
	if err == nil && !unpacked {
		err = img.Unpack(ctx, s.cfg.Snapshotter)
	}
	if err != nil {
		return image.Image{}, fmt.Errorf("unpack %s: %w: %w", name, image.ErrInvalidImage, err)
	}
	d, err := s.details(ctx, rec)
	if err != nil {
		return image.Image{}, fmt.Errorf("%s: %w: %w", name, image.ErrInvalidImage, err)
	}
	names := []string{d.id}
	if named, err := reference.ParseNormalizedNamed(name); err == nil {
		names = append(names, reference.TrimNamed(named).String()+"@"+rec.Target.Digest.String())
	}
	for _, n := range names {
		if err := s.record(ctx, n, rec.Target); err != nil {
			return image.Image{}, fmt.Errorf("record %s: %w", n, err)
		}
	}
	return s.Get(ctx, d.id)
}

func (s *Store) record(ctx context.Context, name string, target ocispec.Descriptor) error {
	is := s.cfg.Client.ImageService()
	img := images.Image{Name: name, Target: target, CreatedAt: time.Now()}
	_, err := is.Create(ctx, img)
	if errdefs.IsAlreadyExists(err) {
		_, err = is.Update(ctx, img, "target")
	}
	return err
}

// Remove implements image.Store.
func (s *Store) Remove(ctx context.Context, id string) error {
	ctx = s.with(ctx)
	records, err := s.cfg.Client.ImageService().List(ctx)
	if err != nil {
		return fmt.Errorf("remove image %s: %w", id, err)
	}
	for _, rec := range records {
		d, err := s.details(ctx, rec)
		if rec.Name != id && (err != nil || d.id != id) {
			continue
		}
		err = s.cfg.Client.ImageService().Delete(ctx, rec.Name, images.SynchronousDelete())
		if err != nil && !errdefs.IsNotFound(err) {
			return fmt.Errorf("remove image %s: %w", rec.Name, err)
		}
		s.mu.Lock()
		delete(s.known, rec.Target.Digest)
		s.mu.Unlock()
	}
	return nil
}

// Import implements image.Store.
func (s *Store) Import(ctx context.Context, archive io.Reader) ([]image.Image, error) {
	ctx = s.with(ctx)
	source := &watched{Reader: archive}
	recs, err := s.cfg.Client.Import(ctx, source, client.WithImageRefTranslator(archiveName))
	if source.err != nil {
		return nil, fmt.Errorf("read the archive: %w", source.err)
	}
	if err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, fmt.Errorf("import: %w: %w", image.ErrInvalidImage, err)
	}
	if len(recs) == 0 {
		return nil, fmt.Errorf("import: %w: it names no image for this platform: save it with a name and tag", image.ErrInvalidImage)
	}
	var out []image.Image
	seen := map[string]bool{}
	for _, rec := range recs {
		img, err := s.adopt(ctx, rec.Name)
		if err != nil {
			return out, fmt.Errorf("import: %w", err)
		}
		if !seen[img.ID] {
			out = append(out, img)
		}
		seen[img.ID] = true
	}
	return out, nil
}

// archiveName turns what an OCI archive calls an image into a full name; a
// bare tag is none.
func archiveName(ref string) string {
	if !strings.ContainsAny(ref, ":/") {
		return ""
	}
	name, err := image.Normalize(ref)
	if err != nil {
		return ""
	}
	return name
}

// watched tells an archive that can not be read from one that is broken.
type watched struct {
	io.Reader
	err error
}

func (w *watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		w.err = err
	}
	return n, err
}

// Filesystem implements image.Store.
func (s *Store) Filesystem(context.Context) (image.Usage, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(s.cfg.Root, &st); err != nil {
		return image.Usage{}, fmt.Errorf("measure the disk of %s: %w", s.cfg.Root, err)
	}
	block := int64(st.Bsize)
	return image.Usage{
		Capacity: int64(st.Blocks) * block, Available: int64(st.Bavail) * block,
		Used:   int64(st.Blocks-st.Bfree) * block,
		Inodes: int64(st.Files), InodesFree: int64(st.Ffree),
	}, nil
}
