package keyring

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-dev/berth/nodeagent/image"
)

func write(t *testing.T, path string, mode os.FileMode, text string) string {
	t.Helper()
	// A child of another test that is forked in between would hold the file open,
	// and what somebody may write to cannot be run.
	syscall.ForkLock.RLock()
	defer syscall.ForkLock.RUnlock()
	if err := os.WriteFile(path, []byte(text), mode); err != nil {
		t.Fatal(err)
	}
	return path
}

func user(name, password string) image.Credential {
	return image.Credential{Username: name, Password: password, Node: true}
}

func TestTheMachinesOwnFile(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "config.json")
	if _, err := Open(Config{File: file, Required: true}); err == nil || !strings.Contains(err.Error(), "config.json") {
		t.Errorf("a file that must be there: %v", err)
	}
	k, err := Open(Config{File: file})
	if err != nil {
		t.Fatal(err)
	}
	if creds, err := k.Credentials(t.Context(), "registry.test/app:1"); err != nil || len(creds) > 0 {
		t.Errorf("without a file: %v, %v", creds, err)
	}
	// docker login writes it while the agent runs.
	write(t, file, 0o600, `{"auths":{"registry.test":{"auth":"YW5uOng="},"registry.test/team":{"username":"team","password":"y"},"other.test":{"username":"o","password":"z"}}}`)
	for ref, want := range map[string][]image.Credential{
		"registry.test/app:1":      {user("ann", "x")},
		"registry.test/team/app:1": {user("team", "y"), user("ann", "x")},
		"busybox":                  nil,
	} {
		creds, err := k.Credentials(t.Context(), ref)
		if diff := cmp.Diff(want, creds); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", ref, err, diff)
		}
	}
	for text, want := range map[string]string{
		`{"auths":`:                      "config.json",
		`{"credsStore":"osxkeychain"}`:   "credential provider",
		`{"credHelpers":{"a.test":"b"}}`: "credential provider",
	} {
		write(t, file, 0o600, text)
		if _, err := k.Credentials(t.Context(), "registry.test/app:1"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if _, err := Open(Config{File: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("opened with %s: %v, want %q", text, err, want)
		}
	}
}

// rig is a machine with one provider that answers what script prints, and counts
// how often it was asked.
type rig struct {
	*testing.T
	dir  string
	ring *Keyring
}

const providers = `apiVersion: kubelet.config.k8s.io/v1
kind: CredentialProviderConfig
providers:
- name: give
  apiVersion: credentialprovider.kubelet.k8s.io/v1
  matchImages: ["*.cloud.test", "registry.test/team"]
  defaultCacheDuration: 10m
  args: [--region, eu]
  env: [{name: WHO, value: ann}]
`

func newRig(t *testing.T, script string) *rig {
	t.Helper()
	r := &rig{T: t, dir: t.TempDir()}
	write(t, filepath.Join(r.dir, "give"), 0o755, "#!/bin/sh\ncat > "+r.dir+"/asked\necho \"$@\" >> "+r.dir+"/calls\n"+script)
	var err error
	r.ring, err = Open(Config{ProviderConfig: write(t, filepath.Join(r.dir, "providers.yaml"), 0o600, providers), ProviderBin: r.dir})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func (r *rig) calls() int {
	data, _ := os.ReadFile(filepath.Join(r.dir, "calls"))
	return strings.Count(string(data), "--region eu\n")
}

// answering is a script that prints a response.
func answering(cacheKey, duration string) string {
	return fmt.Sprintf(`echo '{"apiVersion":"credentialprovider.kubelet.k8s.io/v1","kind":"CredentialProviderResponse","cacheKeyType":%q,%s
"auth":{"*.cloud.test":{"username":"'$WHO'","password":"p"},"registry.test":{"username":"r","password":"q"}}}'`, cacheKey, duration)
}

func TestAProviderGivesCredentials(t *testing.T) {
	t.Parallel()
	r := newRig(t, answering("Registry", ""))
	now := time.Now()
	r.ring.providers[0].now = func() time.Time { return now }
	ask := func(ref string, want []image.Credential, calls int) {
		t.Helper()
		creds, err := r.ring.Credentials(t.Context(), ref)
		if diff := cmp.Diff(want, creds); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", ref, err, diff)
		}
		if n := r.calls(); n != calls {
			t.Errorf("%s: it was asked %d times in all, want %d", ref, n, calls)
		}
	}
	ask("busybox", nil, 0)
	ask("registry.test/elsewhere/app:1", nil, 0)
	ask("eu.cloud.test/app:1", []image.Credential{user("ann", "p")}, 1)
	if asked, _ := os.ReadFile(filepath.Join(r.dir, "asked")); !strings.Contains(string(asked), `"image":"eu.cloud.test/app"`) || !strings.Contains(string(asked), `"kind":"CredentialProviderRequest"`) {
		t.Errorf("it was asked %s", asked)
	}
	ask("eu.cloud.test/other:1", []image.Credential{user("ann", "p")}, 1)
	ask("us.cloud.test/app:1", []image.Credential{user("ann", "p")}, 2)
	ask("registry.test/team/app:1", []image.Credential{user("r", "q")}, 3)
	now = now.Add(10 * time.Minute)
	ask("eu.cloud.test/app:1", []image.Credential{user("ann", "p")}, 4)
}

// Answers are kept for what they are about, and as long as they say.
func TestAProvidersAnswersAreKept(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]int{"Global": 1, "Registry": 2, "Image": 3} {
		r := newRig(t, answering(key, ""))
		for range 2 {
			for _, ref := range []string{"eu.cloud.test/a:1", "eu.cloud.test/b:1", "us.cloud.test/a:2"} {
				if _, err := r.ring.Credentials(t.Context(), ref); err != nil {
					t.Fatal(err)
				}
			}
		}
		if n := r.calls(); n != want {
			t.Errorf("cacheKeyType %s: asked %d times, want %d", key, n, want)
		}
	}
	r := newRig(t, answering("Global", `"cacheDuration":"0s",`))
	for range 2 {
		if _, err := r.ring.Credentials(t.Context(), "eu.cloud.test/a:1"); err != nil {
			t.Fatal(err)
		}
	}
	if n := r.calls(); n != 2 {
		t.Errorf("an answer that is not to be kept: asked %d times, want 2", n)
	}
}

func TestAProviderThatFails(t *testing.T) {
	t.Parallel()
	for script, want := range map[string]string{
		"echo secret >&2; exit 3":  "exit status 3",
		"echo hello":               "no CredentialProviderResponse",
		"echo '{}'":                "want credentialprovider.kubelet.k8s.io/v1",
		answering("Sometimes", ""): "cacheKeyType",
	} {
		r := newRig(t, script)
		creds, err := r.ring.Credentials(t.Context(), "eu.cloud.test/a:1")
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "provider give") || len(creds) > 0 {
			t.Errorf("%s: %v, %v; want %q", script, creds, err, want)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%s: the error tells what the program wrote for the machine's owner: %v", script, err)
		}
	}
	r := newRig(t, "exec sleep 600")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if _, err := r.ring.Credentials(ctx, "eu.cloud.test/a:1"); err == nil {
		t.Error("a provider that hangs gave credentials")
	}
}

func TestProvidersConfigurationIsChecked(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, filepath.Join(dir, "give"), 0o755, "#!/bin/sh\n")
	write(t, filepath.Join(dir, "text"), 0o644, "")
	for name, c := range map[string]struct{ old, new, want string }{
		"as it is":            {"", "", ""},
		"no program":          {"name: give", "name: take", "take"},
		"a file that is none": {"name: give", "name: text", "cannot be run"},
		"a path":              {"name: give", "name: ../give", "want the name of a program"},
		"no images":           {`["*.cloud.test", "registry.test/team"]`, "[]", "matchImages"},
		"no duration":         {"defaultCacheDuration: 10m", "", "defaultCacheDuration"},
		"an older version":    {"apiVersion: credentialprovider.kubelet.k8s.io/v1", "apiVersion: credentialprovider.kubelet.k8s.io/v1beta1", "want credentialprovider.kubelet.k8s.io/v1"},
		"another kind":        {"kind: CredentialProviderConfig", "kind: KubeletConfiguration", "want kubelet.config.k8s.io/v1 CredentialProviderConfig"},
		"a field that is not": {"args:", "arguments:", "arguments"},
		"tokens":              {"args: [--region, eu]", "tokenAttributes: {serviceAccountTokenAudience: a, cacheType: Token, requireServiceAccount: true}", "tokenAttributes"},
		"the same twice":      {"- name: give", "- {name: give, apiVersion: credentialprovider.kubelet.k8s.io/v1, matchImages: [a], defaultCacheDuration: 1m}\n- name: give", "twice"},
		"none":                {providers[strings.Index(providers, "providers:"):], "providers: []", "names no provider"},
	} {
		file := write(t, filepath.Join(dir, "providers.yaml"), 0o600, strings.Replace(providers, c.old, c.new, 1))
		_, err := Open(Config{ProviderConfig: file, ProviderBin: dir})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
	if _, err := Open(Config{ProviderConfig: "x"}); err == nil {
		t.Error("a configuration without programs is taken")
	}
}
