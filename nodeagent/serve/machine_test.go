package serve

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheMachineTellsOfItself(t *testing.T) {
	t.Parallel()
	b := newBench(t, "sleep 600", false)
	for name, text := range map[string]string{"syslog": "booted\n", "../secret": "hush\n"} {
		if err := os.WriteFile(filepath.Join(b.logs, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("../secret", filepath.Join(b.logs, "link")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]struct {
		code int
		body string
	}{
		"/logs/":            {200, `<a href="syslog">syslog</a>`},
		"/logs/syslog":      {200, "booted"},
		"/logs/none":        {404, "not found"},
		"/metrics":          {200, "kubelet_running_pods 1\n"},
		"/metrics/cadvisor": {200, `container_memory_working_set_bytes{container="app",id="`},
	} {
		if code, body := b.get(path); code != want.code || !strings.Contains(body, want.body) {
			t.Errorf("%s: %d %q, want %d with %q", path, code, body, want.code, want.body)
		}
	}
	for _, path := range []string{"/logs/link", "/logs/../secret", "/logs/%2e%2e/secret"} {
		if _, body := b.get(path); strings.Contains(body, "hush") {
			t.Errorf("%s leads out of the folder", path)
		}
	}
}
