package containerd_test

import (
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/image/containerd"
)

// forwardTo is a handler that hands on to a registry on loopback.
func forwardTo(host string) *httputil.ReverseProxy {
	return httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: host})
}

// hosts writes a folder of registries, each by its name and its files.
func hosts(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Registries are reached as hosts.toml has it: by mirrors, with authorities of
// one's own, and without any by name.
func TestRegistriesAreReachedByHostsFiles(t *testing.T) {
	t.Parallel()
	behind := startRegistry(t, map[string]v1.Image{"public/app:1": small(t, "mirrored"), "private/app:1": small(t, "for some")})
	secured := httptest.NewTLSServer(forwardTo(behind))
	t.Cleanup(secured.Close)
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secured.Certificate().Raw})
	at := strings.TrimPrefix(secured.URL, "https://")
	reach := func(more string) string {
		return fmt.Sprintf("server = \"https://nowhere.invalid\"\n[host.%q]\n  capabilities = [\"pull\", \"resolve\"]\n%s", secured.URL, more)
	}
	store := openWith(t, containerd.Config{HostsDir: hosts(t, map[string]string{
		"mirrored.test/hosts.toml":   fmt.Sprintf("server = \"https://nowhere.invalid\"\n[host.\"http://%s\"]\n  capabilities = [\"pull\", \"resolve\"]\n", behind),
		"authority.test/hosts.toml":  reach("  ca = \"ca.pem\"\n"),
		"authority.test/ca.pem":      string(authority),
		"insecure.test/hosts.toml":   reach("  skip_verify = true\n"),
		"unknown.test/hosts.toml":    reach(""),
		"broken.test/hosts.toml":     "server = [",
		"typo.test/hosts.toml":       reach("  skip_verfy = true\n"),
		"able.test/hosts.toml":       strings.Replace(reach(""), "resolve", "guess", 1),
		"late.test/hosts.toml":       reach("  dial_timeout = \"soon\"\n"),
		"number.test/hosts.toml":     reach("  ca = 7\n"),
		"port.test_5000_/hosts.toml": reach("  skip_verify = true\n"),
	})})
	for _, ref := range []string{"mirrored.test/public/app:1", "authority.test/public/app:1", "insecure.test/public/app:1", "port.test:5000/public/app:1"} {
		img, err := store.Pull(t.Context(), ref, nil, nil)
		if err != nil || img.Names[0] != ref && len(img.Names) == 1 {
			t.Errorf("%s: %v, %v", ref, img.Names, err)
		}
	}
	if _, err := store.Pull(t.Context(), "authority.test/private/app:1", nil, nil); !errors.Is(err, image.ErrUnauthorized) {
		t.Errorf("a private image without credentials: %v", err)
	}
	if _, err := store.Pull(t.Context(), "authority.test/private/app:1", []image.Credential{{Username: "u", Password: "p"}}, nil); err != nil {
		t.Errorf("a private image with credentials: %v", err)
	}
	for ref, want := range map[string]string{
		"unknown.test/public/app:1": "certificate",
		"broken.test/public/app:1":  "broken.test/hosts.toml: toml: ",
		"typo.test/public/app:1":    "typo.test/hosts.toml: unknown field skip_verfy",
		"able.test/public/app:1":    `capabilities: "guess"`,
		"late.test/public/app:1":    "dial_timeout",
		"number.test/public/app:1":  "ca: want a file",
		at + "/public/none:1":       "not found", // loopback is reached without further words
	} {
		if _, err := store.Pull(t.Context(), ref, nil, nil); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", ref, err, want)
		}
	}
}

// A registry that begins to answer and sends no more does not hold a pull for ever.
func TestAPullThatStallsEnds(t *testing.T) {
	t.Parallel()
	behind := startRegistry(t, map[string]v1.Image{"app:1": small(t, "x")})
	next, released := forwardTo(behind), make(chan struct{})
	stalls := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.Contains(r.URL.Path, "/blobs/") {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(http.StatusOK)
		_ = http.NewResponseController(w).Flush()
		<-released
	}))
	t.Cleanup(stalls.Close)
	t.Cleanup(func() { close(released) })
	store := openWith(t, containerd.Config{Stalled: 200 * time.Millisecond})
	_, err := store.Pull(t.Context(), strings.TrimPrefix(stalls.URL, "http://")+"/app:1", nil, nil)
	if !errors.Is(err, image.ErrUnavailable) || !strings.Contains(err.Error(), "sent nothing for 200ms") {
		t.Errorf("Pull = %v, want that the registry sent nothing", err)
	}
}
