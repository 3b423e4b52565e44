package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// FuzzDigest gives anything as the name of a module.
func FuzzDigest(f *testing.F) {
	f.Add("sha256-" + strings.Repeat("0", 64))
	f.Add("sha256:" + strings.Repeat("AF", 32))
	f.Add("sha256-sha256:")
	f.Fuzz(func(t *testing.T, name string) {
		digest, err := v1alpha1.Digest(name)
		if err != nil {
			return
		}
		if len(digest) != len("sha256:")+64 || strings.ContainsAny(digest, "/\\. ") {
			t.Errorf("Digest(%q) = %q", name, digest)
		}
		if again, err := v1alpha1.Digest(v1alpha1.ModuleName(digest)); again != digest || err != nil {
			t.Errorf("the digest of %q is %q, %v; want %q", v1alpha1.ModuleName(digest), again, err, digest)
		}
	})
}

// FuzzKeys gives anything as files of trusted and of signing keys.
func FuzzKeys(f *testing.F) {
	f.Add([]byte("-----BEGIN PUBLIC KEY-----\nMCowBQYDK2VwAyEAGb9ECWmEzf6FQbrBZ9w7lshQhqowtrbLDFw4rXAxZuE=\n-----END PUBLIC KEY-----\n"))
	f.Add([]byte("-----BEGIN PRIVATE KEY-----\nMC4CAQAwBQYDK2VwBCIEINTuctv5E1hK1bbY8fdp+K06/nwoy/HU++CXqI9EdVhC\n-----END PRIVATE KEY-----\n"))
	file := filepath.Join(f.TempDir(), "key.pub")
	f.Fuzz(func(t *testing.T, pem []byte) {
		if err := os.WriteFile(file, pem, 0o600); err != nil {
			t.Fatal(err)
		}
		if key, err := module.ReadPublicKey(file); err == nil && len(module.KeyID(key)) != len("ed25519:")+32 {
			t.Errorf("the key's name is %q", module.KeyID(key))
		}
		if key, err := module.ReadPrivateKey(file); err == nil && len(key) != 64 {
			t.Errorf("a private key of %d bytes", len(key))
		}
	})
}

// FuzzObserves gives anything as a checker's own config.
func FuzzObserves(f *testing.F) {
	f.Add([]byte(`{"observe":[{"name":"up","kind":"http","port":80,"path":"/"},{"name":"in","kind":"node","condition":"Ready"}]}`))
	f.Add([]byte(`{"observe":[{"name":"up","kind":"http","port":"web","scheme":"HTTPS","path":"/a?b","httpHeaders":[{"name":"Host","value":"a"}]}]}`))
	f.Add([]byte(`{"observe":[{"name":"db","kind":"pods","selector":"app in (db"}]}`))
	f.Add([]byte(`{"observe":[{"name":"up","kind":"tcp","port":80,"prot":"TCP"}]}`))
	f.Add([]byte(`{"observe":null}`))
	f.Add([]byte(`null`))
	f.Fuzz(func(t *testing.T, config []byte) {
		wants, err := sandbox.Observes(nil, config)
		if err != nil {
			return
		}
		if err := abi.CheckObserves(wants); err != nil {
			t.Errorf("%q is taken, though %v", config, err)
		}
	})
}
