package module_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-dev/berth/host/policy/module"
)

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
