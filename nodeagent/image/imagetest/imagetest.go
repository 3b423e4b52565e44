// Package imagetest is the suite that each image.Store passes.
package imagetest

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/berth-dev/berth/nodeagent/image"
)

// Fixture is a store and a registry that it can reach.
type Fixture struct {
	Store image.Store
	// Public is a name that anybody may pull; Private one that needs
	// Credential; Missing one that the registry does not have; Refused one at
	// a registry that does not answer.
	Public, Private, Missing, Refused string
	Credential                        image.Credential
	// Archive gives an archive that holds one image named ArchiveName.
	Archive     func(t *testing.T) io.Reader
	ArchiveName string
}

// Run runs the suite; open is called once for each test with an empty store.
func Run(t *testing.T, open func(t *testing.T) Fixture) {
	for name, test := range map[string]func(*testing.T, context.Context, Fixture){
		"a pulled image is found by every name":       testPull,
		"credentials open a private image":            testCredential,
		"without credentials it is unauthorized":      testUnauthorized,
		"a missing image is not found":                testMissing,
		"a refused connection is unavailable":         testRefused,
		"nonsense is an invalid name":                 testInvalid,
		"an absent image is not found on the machine": testAbsent,
		"a removed image is gone":                     testRemove,
		"an archive's image can be found":             testImport,
		"a broken archive is refused":                 testBrokenArchive,
		"the filesystem has a size":                   testFilesystem,
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			test(t, ctx, open(t))
		})
	}
}

func testPull(t *testing.T, ctx context.Context, f Fixture) {
	img, err := f.Store.Pull(ctx, f.Public, nil, nil)
	if err != nil {
		t.Fatalf("Pull: %v", err)
	}
	if img.ID == "" || len(img.Names) == 0 || len(img.Digests) == 0 || img.Size <= 0 {
		t.Errorf("Pull = %+v", img)
	}
	for _, ref := range append([]string{f.Public, img.ID}, append(img.Names, img.Digests...)...) {
		if got, err := f.Store.Get(ctx, ref); err != nil || got.ID != img.ID {
			t.Errorf("Get(%s) = %s, %v; want %s", ref, got.ID, err, img.ID)
		}
	}
}

func testCredential(t *testing.T, ctx context.Context, f Fixture) {
	wrong := image.Credential{Username: "nobody", Password: "wrong"}
	if _, err := f.Store.Pull(ctx, f.Private, []image.Credential{wrong, f.Credential}, nil); err != nil {
		t.Errorf("Pull: %v", err)
	}
}

func testUnauthorized(t *testing.T, ctx context.Context, f Fixture) {
	if _, err := f.Store.Pull(ctx, f.Private, nil, nil); !errors.Is(err, image.ErrUnauthorized) {
		t.Errorf("Pull: %v, want ErrUnauthorized", err)
	}
}

func testMissing(t *testing.T, ctx context.Context, f Fixture) {
	if _, err := f.Store.Pull(ctx, f.Missing, nil, nil); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("Pull: %v, want ErrNotFound", err)
	}
}

func testRefused(t *testing.T, ctx context.Context, f Fixture) {
	if _, err := f.Store.Pull(ctx, f.Refused, nil, nil); !errors.Is(err, image.ErrUnavailable) {
		t.Errorf("Pull: %v, want ErrUnavailable", err)
	}
}

func testInvalid(t *testing.T, ctx context.Context, f Fixture) {
	for _, ref := range []string{"", "UPPER:case", "a b", "x:y:z"} {
		if _, err := f.Store.Pull(ctx, ref, nil, nil); !errors.Is(err, image.ErrInvalidName) {
			t.Errorf("Pull(%q): %v, want ErrInvalidName", ref, err)
		}
	}
}

func testAbsent(t *testing.T, ctx context.Context, f Fixture) {
	if _, err := f.Store.Get(ctx, f.Public); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
}

func testRemove(t *testing.T, ctx context.Context, f Fixture) {
	img, err := f.Store.Pull(ctx, f.Public, nil, nil)
	if err != nil {
		t.Fatalf("Pull: %v", err)
	}
	for range 2 {
		if err := f.Store.Remove(ctx, img.ID); err != nil {
			t.Fatalf("Remove: %v", err)
		}
	}
	if _, err := f.Store.Get(ctx, f.Public); !errors.Is(err, image.ErrNotFound) {
		t.Errorf("Get: %v, want ErrNotFound", err)
	}
	list, err := f.Store.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range list {
		if got.ID == img.ID {
			t.Errorf("a removed image is still listed")
		}
	}
}

func testImport(t *testing.T, ctx context.Context, f Fixture) {
	imgs, err := f.Store.Import(ctx, f.Archive(t))
	if err != nil || len(imgs) != 1 {
		t.Fatalf("Import = %v, %v", imgs, err)
	}
	if got, err := f.Store.Get(ctx, f.ArchiveName); err != nil || got.ID != imgs[0].ID {
		t.Errorf("Get(%s) = %s, %v", f.ArchiveName, got.ID, err)
	}
}

func testBrokenArchive(t *testing.T, ctx context.Context, f Fixture) {
	broken := io.LimitReader(zeros{}, 2000)
	if _, err := f.Store.Import(ctx, broken); !errors.Is(err, image.ErrInvalidImage) {
		t.Errorf("Import: %v, want ErrInvalidImage", err)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func testFilesystem(t *testing.T, ctx context.Context, f Fixture) {
	u, err := f.Store.Filesystem(ctx)
	if err != nil || u.Capacity <= 0 || u.Available < 0 || u.Available > u.Capacity {
		t.Errorf("Filesystem = %+v, %v", u, err)
	}
}
