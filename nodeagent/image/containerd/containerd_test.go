package containerd_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	client "github.com/containerd/containerd/v2/client"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/image/containerd"
	"github.com/berth-dev/berth/nodeagent/image/imagetest"
	"github.com/berth-dev/berth/nodeagent/image/testimage"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/daemon"
	"github.com/berth-dev/berth/nodeagent/tool"
)

// startContainerd starts one for the test. Its state lies at a short path, as
// sockets must.
func startContainerd(t *testing.T) *client.Client {
	t.Helper()
	var missing string
	programs, err := tool.FindAll([]string{"containerd", "containerd-shim-runc-v2", "runc"})
	switch {
	case os.Geteuid() != 0:
		missing = "containerd needs root"
	case err != nil:
		missing = err.Error()
	}
	if missing != "" {
		if os.Getenv("CI") != "" {
			t.Fatal(missing)
		}
		t.Skip(missing)
	}
	state, err := os.MkdirTemp("/run", "berth-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(state) })
	d, err := daemon.Start(t.Context(), daemon.Config{
		Root: t.TempDir(), State: state, Containerd: programs["containerd"],
		Path: []string{filepath.Dir(programs["runc"])}, Log: slog.New(slog.NewTextHandler(t.Output(), nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	c, err := client.New(d.Address(), client.WithDefaultNamespace("berth"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// small is an image that takes no time; two names give two images.
func small(t *testing.T, text string) v1.Image {
	t.Helper()
	img, err := testimage.Build([]testimage.File{{Path: "/etc/text", Mode: 0o644, Data: []byte(text)}}, v1.Config{
		Env: []string{"A=b"}, Entrypoint: []string{"/app"}, Cmd: []string{"-x"}, WorkingDir: "/w", User: "app:staff",
		StopSignal: "SIGQUIT", Volumes: map[string]struct{}{"/v": {}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return img
}

// startRegistry serves images on loopback: all below /private/ want a password.
func startRegistry(t *testing.T, images map[string]v1.Image) string {
	t.Helper()
	open := registry.New(registry.Logger(slog.NewLogLogger(slog.DiscardHandler, 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		switch {
		case strings.Contains(r.URL.Path, "/broken/"):
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		case strings.Contains(r.URL.Path, "/private/") && r.Header.Get("X-Push") == "" && (user != "u" || password != "p"):
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		open.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	for path, img := range images {
		push(t, s.URL, path, img)
	}
	return host
}

// push puts an image into a registry: its blobs, then its manifest.
func push(t *testing.T, url, path string, img v1.Image) {
	t.Helper()
	repo, tag, _ := strings.Cut(path, ":")
	send := func(method, path string, header http.Header, body []byte) {
		req, err := http.NewRequestWithContext(t.Context(), method, url+"/v2/"+repo+path, bytes.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header
		req.Header.Set("X-Push", "1")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		defer resp.Body.Close()
		if resp.StatusCode >= 300 {
			t.Fatalf("%s %s: %s", method, path, resp.Status)
		}
	}
	blob := func(digest v1.Hash, body []byte) {
		send(http.MethodPost, "/blobs/uploads/?digest="+digest.String(), http.Header{}, body)
	}
	layers, err := img.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		digest, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		blob(digest, body)
	}
	config, err := img.RawConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	digest, err := img.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	blob(digest, config)
	manifest, err := img.RawManifest()
	if err != nil {
		t.Fatal(err)
	}
	kind, err := img.MediaType()
	if err != nil {
		t.Fatal(err)
	}
	send(http.MethodPut, "/manifests/"+tag, http.Header{"Content-Type": {string(kind)}}, manifest)
}

func open(t *testing.T) *containerd.Store { return openWith(t, containerd.Config{}) }

func openWith(t *testing.T, cfg containerd.Config) *containerd.Store {
	t.Helper()
	cfg.Client, cfg.Snapshotter, cfg.Root, cfg.Log = startContainerd(t), "native", t.TempDir(), slog.New(slog.NewTextHandler(t.Output(), nil))
	return containerd.New(cfg)
}

func TestConformance(t *testing.T) {
	t.Parallel()
	imagetest.Run(t, func(t *testing.T) imagetest.Fixture {
		store := open(t)
		host := startRegistry(t, map[string]v1.Image{"public/app:1": small(t, "public"), "private/app:1": small(t, "private")})
		return imagetest.Fixture{
			Store: store, Public: host + "/public/app:1", Private: host + "/private/app:1",
			Missing: host + "/public/none:1", Refused: "127.0.0.1:1/app:1",
			Credential: image.Credential{Username: "u", Password: "p"},
			Archive: func(t *testing.T) io.Reader {
				r, err := testimage.Archive("berth.test/app:1", small(t, "archive"))
				if err != nil {
					t.Fatal(err)
				}
				return r
			},
			ArchiveName: "berth.test/app:1",
		}
	})
}

func TestImagesKeepTheirConfig(t *testing.T) {
	t.Parallel()
	store := open(t)
	r, err := testimage.Archive("berth.test/app:1", small(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	imgs, err := store.Import(t.Context(), r)
	if err != nil {
		t.Fatal(err)
	}
	want := image.Config{
		Env: []string{"A=b"}, Entrypoint: []string{"/app"}, Cmd: []string{"-x"}, WorkDir: "/w", User: "app:staff",
		StopSignal: "SIGQUIT", Volumes: []string{"/v"},
	}
	if got := imgs[0].Config; fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("config %+v, want %+v", got, want)
	}
}

func TestATagThatMovesLeavesTheOldImage(t *testing.T) {
	t.Parallel()
	store := open(t)
	host := startRegistry(t, map[string]v1.Image{"app:1": small(t, "old")})
	old, err := store.Pull(t.Context(), host+"/app:1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	push(t, "http://"+host, "app:1", small(t, "new"))
	moved, err := store.Pull(t.Context(), host+"/app:1", nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if moved.ID == old.ID {
		t.Fatal("the tag did not move")
	}
	if got, err := store.Get(t.Context(), host+"/app:1"); err != nil || got.ID != moved.ID {
		t.Errorf("the tag names %s, %v; want %s", got.ID, err, moved.ID)
	}
	if got, err := store.Get(t.Context(), old.ID); err != nil || len(got.Names) != 0 {
		t.Errorf("the old image: %+v, %v; want it without names", got, err)
	}
	if err := store.Remove(t.Context(), old.ID); err != nil {
		t.Fatal(err)
	}
	if got, err := store.Get(t.Context(), host+"/app:1"); err != nil || got.ID != moved.ID {
		t.Errorf("after the old one was removed the tag names %s, %v", got.ID, err)
	}
}

func TestPullErrorsAreToldApart(t *testing.T) {
	t.Parallel()
	store := open(t)
	host := startRegistry(t, map[string]v1.Image{"private/app:1": small(t, "x")})
	wrong := []image.Credential{{Username: "u", Password: "wrong"}}
	tests := []struct {
		name, ref string
		creds     []image.Credential
		want      error
	}{
		{"a wrong password", host + "/private/app:1", wrong, image.ErrUnauthorized},
		{"a missing tag of an image that is there", host + "/private/app:9", []image.Credential{{Username: "u", Password: "p"}}, image.ErrNotFound},
		{"a registry that is ill", host + "/broken/app:1", nil, image.ErrUnavailable},
	}
	for _, tt := range tests {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_, err := store.Pull(ctx, tt.ref, tt.creds, nil)
		cancel()
		if err == nil || !strings.Contains(err.Error(), tt.want.Error()) {
			t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
		}
	}
}

func TestBrokenArchivesAreRefused(t *testing.T) {
	t.Parallel()
	store := open(t)
	r, err := testimage.Archive("berth.test/app:1", small(t, "x"))
	if err != nil {
		t.Fatal(err)
	}
	whole, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	for _, cut := range []int{0, 100, len(whole) / 2} {
		if _, err := store.Import(t.Context(), bytes.NewReader(whole[:cut])); err == nil || !strings.Contains(err.Error(), image.ErrInvalidImage.Error()) {
			t.Errorf("an archive cut at %d of %d: %v, want %v", cut, len(whole), err, image.ErrInvalidImage)
		}
	}
	if _, err := store.Import(t.Context(), bytes.NewReader(whole)); err != nil {
		t.Errorf("the whole archive: %v", err)
	}
	list, err := store.List(t.Context())
	if err != nil || len(list) != 1 {
		t.Errorf("List = %v, %v; want the one image", list, err)
	}
}
