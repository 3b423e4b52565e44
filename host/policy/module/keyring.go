package module

import (
	"crypto/ed25519"
	"crypto/sha256"
	"crypto/x509"
	"encoding/hex"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// Keyring holds the public keys whose word for a module counts. An empty one
// trusts every module.
type Keyring map[string]ed25519.PublicKey

// KeyID names a public key.
func KeyID(key ed25519.PublicKey) string {
	sum := sha256.Sum256(key)
	return "ed25519:" + hex.EncodeToString(sum[:16])
}

// ReadKeyring reads all *.pub files of a directory, PEM as openssl writes them.
func ReadKeyring(dir string) (Keyring, error) {
	if dir == "" {
		return nil, nil
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.pub"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("trusted keys: no *.pub file in %s", dir)
	}
	ring := Keyring{}
	for _, file := range files {
		key, err := ReadPublicKey(file)
		if err != nil {
			return nil, fmt.Errorf("trusted keys: %s: %w", file, err)
		}
		ring[KeyID(key)] = key
	}
	return ring, nil
}

// ReadPublicKey reads an ed25519 key from a PEM file.
func ReadPublicKey(file string) (ed25519.PublicKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, errors.New("not a PEM file: write one by `openssl pkey -in KEY -pubout`")
	}
	if block.Type != "PUBLIC KEY" {
		return nil, fmt.Errorf("it holds a %s: write the public key by `openssl pkey -in KEY -pubout`", strings.ToLower(block.Type))
	}
	parsed, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("no public key can be read in it (%w): write one by `openssl pkey -in KEY -pubout`", err)
	}
	key, ok := parsed.(ed25519.PublicKey)
	if !ok {
		return nil, errors.New("not an ed25519 key")
	}
	return key, nil
}

// ErrUnsigned is why a module does not come in where keys are trusted.
var ErrUnsigned = errors.New("no trusted key has signed this module: sign it by `berth policy sign`, and push it with --signature")

// Verify says whether one of the signatures over sum is by a trusted key.
func (k Keyring) Verify(sum [sha256.Size]byte, signatures []v1alpha1.Signature) error {
	if len(k) == 0 {
		return nil
	}
	for _, s := range signatures {
		if k.made(s, sum) {
			return nil
		}
	}
	return ErrUnsigned
}

// made says whether a signature over sum is by a trusted key.
func (k Keyring) made(s v1alpha1.Signature, sum [sha256.Size]byte) bool {
	key, ok := k[s.KeyID]
	return ok && ed25519.Verify(key, sum[:], s.Value)
}

// Bounded leaves MaxSignatures of those over sum. Of more those give way first that
// no trusted key made, and of their like those that came first.
func (k Keyring) Bounded(sum [sha256.Size]byte, signatures []v1alpha1.Signature) []v1alpha1.Signature {
	over := len(signatures) - MaxSignatures
	for _, trusted := range []bool{false, true} {
		signatures = slices.DeleteFunc(signatures, func(s v1alpha1.Signature) bool {
			if over <= 0 || k.made(s, sum) != trusted {
				return false
			}
			over--
			return true
		})
	}
	return signatures
}

// Sign gives a key's word for a module.
func Sign(key ed25519.PrivateKey, wasm []byte) v1alpha1.Signature {
	sum := sha256.Sum256(wasm)
	return v1alpha1.Signature{KeyID: KeyID(key.Public().(ed25519.PublicKey)), Value: ed25519.Sign(key, sum[:])}
}
