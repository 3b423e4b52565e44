package image

import (
	"encoding/base64"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
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

func FuzzCredentials(f *testing.F) {
	f.Add([]byte(`{"auths":{"r.io":{"auth":"dTpw"}}}`), "r.io/x")
	f.Fuzz(func(t *testing.T, data []byte, ref string) {
		_, _ = Credentials(&v1.Secret{Data: map[string][]byte{v1.DockerConfigJsonKey: data}}, ref)
	})
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
