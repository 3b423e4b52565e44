package module

import (
	"crypto/ed25519"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// ReadPrivateKey reads an ed25519 key from a PEM file, PKCS 8 as openssl
// writes it.
func ReadPrivateKey(file string) (ed25519.PrivateKey, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data)
	if block == nil {
		return nil, fmt.Errorf("%s is not a PEM file: make a key by `openssl genpkey -algorithm ed25519 -out KEY.pem`", file)
	}
	if block.Type == "PUBLIC KEY" {
		return nil, fmt.Errorf("%s holds a public key: modules are signed by the private one", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	key, ok := parsed.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("%s is not an ed25519 key", file)
	}
	return key, nil
}

// FormatSignature writes a signature as one line, KEYID=BASE64.
func FormatSignature(s v1alpha1.Signature) string {
	return s.KeyID + "=" + base64.StdEncoding.EncodeToString(s.Value)
}

// ParseSignature reads what FormatSignature wrote.
func ParseSignature(line string) (v1alpha1.Signature, error) {
	id, encoded, ok := strings.Cut(strings.TrimSpace(line), "=")
	raw, err := base64.StdEncoding.DecodeString(encoded)
	if !ok || id == "" || err != nil || len(raw) != ed25519.SignatureSize {
		return v1alpha1.Signature{}, errors.New("not a signature: want KEYID=BASE64, as `berth policy sign` prints it")
	}
	return v1alpha1.Signature{KeyID: id, Value: raw}, nil
}
