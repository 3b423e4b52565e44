package serviceaccount

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"gopkg.in/go-jose/go-jose.v2"
)

// signer signs and verifies with one key.
type signer struct {
	key    *ecdsa.PrivateKey
	id     string
	signer jose.Signer
}

func newSigner(key *ecdsa.PrivateKey) (*signer, error) {
	id, err := keyID(&key.PublicKey)
	if err != nil {
		return nil, err
	}
	jwk := &jose.JSONWebKey{Algorithm: string(jose.ES256), Key: key, KeyID: id, Use: "sig"}
	s, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.ES256, Key: jwk}, nil)
	if err != nil {
		return nil, fmt.Errorf("prepare the key for service account tokens: %w", err)
	}
	return &signer{key: key, id: id, signer: s}, nil
}

// keyID names a public key by its digest, as Kubernetes does.
func keyID(key crypto.PublicKey) (string, error) {
	der, err := x509.MarshalPKIXPublicKey(key)
	if err != nil {
		return "", fmt.Errorf("encode the public key for service account tokens: %w", err)
	}
	sum := sha256.Sum256(der)
	return base64.RawURLEncoding.EncodeToString(sum[:]), nil
}

func (s *signer) sign(c any) (string, error) {
	payload, err := json.Marshal(c)
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	signed, err := s.signer.Sign(payload)
	if err != nil {
		return "", fmt.Errorf("sign a token: %w", err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		return "", fmt.Errorf("encode a token: %w", err)
	}
	return token, nil
}

// errNotOurs is a token of another kind or another issuer.
var errNotOurs = errors.New("not a token of this issuer")

// verify reads the claims of a token that the key signed for the issuer. It says
// nothing on whether the token still holds.
func (s *signer) verify(token, issuer string, claims any) error {
	if !issuedBy(token, issuer) {
		return errNotOurs
	}
	parsed, err := jose.ParseSigned(token)
	if err != nil {
		return errors.New("the token is malformed")
	}
	if len(parsed.Signatures) != 1 {
		return errors.New("the token has not one signature")
	}
	header := parsed.Signatures[0].Protected
	if header.Algorithm != string(jose.ES256) || header.KeyID != s.id {
		return errors.New("the token is signed by an unknown key")
	}
	payload, err := parsed.Verify(&s.key.PublicKey)
	if err != nil {
		return errors.New("the token's signature does not hold")
	}
	// What was signed need not be what issuedBy read.
	if !names(payload, issuer) {
		return errNotOurs
	}
	if err := json.Unmarshal(payload, claims); err != nil {
		return fmt.Errorf("the token's claims are malformed: %w", err)
	}
	return nil
}

// issuedBy looks at the issuer that a token names, unverified, so that tokens
// of other kinds cost little.
func issuedBy(token, issuer string) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return false
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	return err == nil && names(payload, issuer)
}

func names(payload []byte, issuer string) bool {
	var named struct {
		Issuer string `json:"iss"`
	}
	return json.Unmarshal(payload, &named) == nil && named.Issuer == issuer
}
