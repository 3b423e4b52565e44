package image

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/distribution/reference"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	v1 "k8s.io/api/core/v1"
)

func TestNormalize(t *testing.T) {
	t.Parallel()
	for ref, want := range map[string]string{
		"busybox": "docker.io/library/busybox:latest", "busybox:1": "docker.io/library/busybox:1", "a/b": "docker.io/a/b:latest",
		"localhost:5000/x": "localhost:5000/x:latest", "r.io/x:1": "r.io/x:1",
	} {
		if got, err := Normalize(ref); err != nil || got != want {
			t.Errorf("Normalize(%q) = %q, %v; want %q", ref, got, err, want)
		}
	}
	for ref, want := range map[string]bool{"a": true, "a:latest": true, "a:1": false, "a@sha256:" + fmt.Sprintf("%064d", 0): false} {
		if got := Latest(ref); got != want {
			t.Errorf("Latest(%q) = %v", ref, got)
		}
	}
}

func TestCredentialsFitTheirRegistry(t *testing.T) {
	t.Parallel()
	auth := base64.StdEncoding.EncodeToString([]byte("u:p:w"))
	secret := &v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: []byte(`{"auths":{
		"https://index.docker.io/v1/": {"auth":"` + auth + `"},
		"r.io": {"username":"all","password":"x"},
		"r.io/team": {"username":"team","password":"x"},
		"*.example.com:5000": {"username":"wild","password":"x"}}}`)}}
	for ref, want := range map[string][]string{
		"busybox": {"u"}, "r.io/team/app": {"team", "all"}, "r.io/teams/app": {"all"}, "a.example.com:5000/x": {"wild"},
		"a.example.com/x": nil, "a.b.example.com:5000/x": nil, "evil.io/x": nil,
	} {
		creds, err := Credentials(secret, ref)
		if err != nil {
			t.Fatal(err)
		}
		var users []string
		for _, c := range creds {
			users = append(users, c.Username)
			if c.Username == "u" && c.Password != "p:w" {
				t.Errorf("password %q", c.Password)
			}
		}
		if diff := cmp.Diff(want, users); diff != "" {
			t.Errorf("Credentials(%s): %s", ref, diff)
		}
	}
}

// TestOnlyAWholeVersionIsNoRepository holds that a key's path loses the version
// of a registry's protocol, and nothing that merely begins like one.
func TestOnlyAWholeVersionIsNoRepository(t *testing.T) {
	t.Parallel()
	for key, want := range map[string]bool{
		"r.io/v1": true, "r.io/v2/": true, "r.io/v2/team": true, "r.io/v1team": false, "r.io/v1v2/team": false, "r.io/v1/v2/team": false,
	} {
		if got := placeOf(key).fits("r.io", "team/app"); got != want {
			t.Errorf("a key of %s fits r.io/team/app: %v, want %v", key, got, want)
		}
	}
}

// FuzzCredentials holds that a registry gets the credentials of those keys that
// a reading of its own finds to speak of it, and no others': what is given to a
// registry that a secret does not name is stolen.
func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.io":{"auth":"dTpw"},"https://r.io/v2/x/":{"username":"a","identitytoken":"t"}}}`), "", "", "r.io/x")
	for _, key := range []string{"r.io/x", "*.io", "r.io:5000/x/y", "https://index.docker.io/v1/", "evil.io/r.io", "r.i*", "r?io", "r.io/v1x"} {
		for _, ref := range []string{"r.io/x", "r.io/xy:1", "r.io:5000/x/y/z", "busybox"} {
			f.Add([]byte(nil), key, "u:p:w", ref)
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, key, auth, ref string) {
		if len(data) == 0 {
			data, _ = json.Marshal(map[string]any{"auths": map[string]Auth{
				key: {Auth: base64.StdEncoding.EncodeToString([]byte(auth))}, "r.io/x": {Username: "x"}, "*.b": {Username: "b"}}})
		}
		got, err := Credentials(&v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: data}}, ref)
		var secret struct{ Auths map[string]Auth }
		if err != nil || json.Unmarshal(data, &secret) != nil {
			return
		}
		named, err := reference.ParseDockerRef(ref)
		if err != nil {
			t.Fatalf("Credentials of %q, which is no name: %v", ref, err)
		}
		var want []Credential
		for k, a := range secret.Auths {
			switch names, sure := speaksOf(k, named); {
			case !sure:
				return
			case names:
				want = append(want, plainly(t, a))
			}
		}
		less := func(a, b Credential) bool { return fmt.Sprint(a) < fmt.Sprint(b) }
		if diff := cmp.Diff(want, got, cmpopts.SortSlices(less), cmpopts.EquateEmpty()); diff != "" {
			t.Errorf("Credentials(%s) of %s (-want +got):\n%s", ref, data, diff)
		}
	})
}

// speaksOf says whether a key names an image's place, by regular expressions; it
// is not sure of keys that hold more than names, ports, paths and stars.
func speaksOf(key string, image reference.Named) (names, sure bool) {
	parts := regexp.MustCompile(`^(?:https?://)?([a-z0-9.*?-]+)(:[0-9]+)?(?:/(?:v[12](?:/|$))?([a-z0-9/]*))?$`).FindStringSubmatch(key)
	if parts == nil || strings.Contains(parts[3], "//") || strings.HasPrefix(parts[3], "/") {
		return false, false
	}
	host := strings.NewReplacer(`\*`, `[^.:/]*`, `\?`, `[^.:/]`).Replace(regexp.QuoteMeta(parts[1]))
	if parts[2] == "" && (parts[1] == "index.docker.io" || parts[1] == "registry-1.docker.io") {
		host = `docker\.io`
	}
	path := strings.TrimSuffix(parts[3], "/")
	if path != "" {
		path = "/" + path
	}
	return regexp.MustCompile("^" + host + parts[2] + path + "(/|$)").MatchString(image.Name()), true
}

// plainly is an entry's credential, if it is whole.
func plainly(t *testing.T, a Auth) Credential {
	t.Helper()
	c := Credential{Username: a.Username, Password: a.Password, IdentityToken: a.IdentityToken, RegistryToken: a.RegistryToken}
	if a.Auth == "" || a.Username != "" {
		return c
	}
	padded := strings.TrimRight(strings.NewReplacer("\n", "", "\r", "").Replace(a.Auth), "=")
	raw, err := base64.RawStdEncoding.DecodeString(padded)
	colon := bytes.IndexByte(raw, ':')
	if err != nil || colon < 0 {
		t.Fatalf("%q was read as user and password", a.Auth)
	}
	c.Username, c.Password = string(raw[:colon]), string(bytes.TrimRight(raw[colon+1:], "\x00"))
	return c
}

func TestCollectTakesTheLongestUnused(t *testing.T) {
	t.Parallel()
	at := func(n int64) time.Time { return time.Unix(n, 0) }
	list := []Image{
		{ID: "late", Size: 10, PulledAt: at(9)}, {ID: "used", Size: 10, PulledAt: at(1)}, {ID: "pause", Size: 10, Pinned: true},
		{ID: "once", Size: 10, PulledAt: at(0)}, {ID: "old", Size: 10, PulledAt: at(2)}, {ID: "mid", Size: 10, PulledAt: at(5)},
	}
	var u Uses
	u.See(list, map[string]bool{"once": true}, at(100))
	now := at(100).Add(leastAge)
	list = append(list, Image{ID: "new", Size: 10})
	used := map[string]bool{"used": true}
	u.See(list, used, now)
	for need, want := range map[int64][]string{0: nil, 1: {"old"}, 10: {"old"}, 11: {"old", "mid"}, 99: {"old", "mid", "late", "once"}} {
		var got []string
		for _, i := range u.Collect(list, used, need, now) {
			got = append(got, i.ID)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("Collect(%d): %s", need, diff)
		}
	}
	if got := u.Collect(list, used, 99, now.Add(-time.Second)); len(got) != 0 {
		t.Errorf("before their time %v are chosen", got)
	}
	var fresh Uses
	if got := fresh.Collect(list, nil, 99, now); len(got) != 0 {
		t.Errorf("unseen, %v are chosen", got)
	}
}
