package fake_test

import (
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/image/fake"
	"github.com/berth-dev/berth/nodeagent/image/imagetest"
)

func TestConformance(t *testing.T) {
	t.Parallel()
	imagetest.Run(t, func(*testing.T) imagetest.Fixture {
		secret := image.Credential{Username: "u", Password: "p"}
		s := fake.New()
		s.Remote = func(ref string, creds []image.Credential) (image.Config, error) {
			switch {
			case strings.Contains(ref, "missing"):
				return image.Config{}, image.ErrNotFound
			case strings.Contains(ref, "refused"):
				return image.Config{}, image.ErrUnavailable
			case strings.Contains(ref, "private") && !slices.Contains(creds, secret):
				return image.Config{}, image.ErrUnauthorized
			}
			return image.Config{Cmd: []string{"/app"}}, nil
		}
		return imagetest.Fixture{
			Store: s, Public: "public:1", Private: "private:1", Missing: "missing:1", Refused: "refused:1", Credential: secret,
			Archive: func(*testing.T) io.Reader { return strings.NewReader("imported:1") }, ArchiveName: "imported:1",
		}
	})
}
