package join

import (
	"bytes"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Token is what an operator gives to a machine.
type Token struct {
	// Bearer is ID.SECRET.
	Bearer string
	// Hash is the SHA-256 of the authority's subject public key info.
	Hash []byte
}

// ParseToken reads "abcdef.0123456789abcdef:sha256:HEX".
func ParseToken(text string) (Token, error) {
	bearer, pin, ok := strings.Cut(strings.TrimSpace(text), ":")
	id, secret, dotted := strings.Cut(bearer, ".")
	if !ok || !dotted || len(id) != 6 || len(secret) != 16 {
		return Token{}, errors.New("join token: want ID.SECRET:sha256:HASH, as `berth token create` prints it")
	}
	digest, ok := strings.CutPrefix(pin, "sha256:")
	if !ok {
		return Token{}, errors.New("join token: the authority's hash must have the form sha256:HASH")
	}
	hash, err := hex.DecodeString(digest)
	if err != nil || len(hash) != sha256.Size {
		return Token{}, errors.New("join token: the authority's hash is not 64 hex digits")
	}
	return Token{Bearer: bearer, Hash: hash}, nil
}

// tlsConfig trusts a host whose handshake shows the pinned authority and a
// first certificate that it signed.
func (t Token) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion:         tls.VersionTLS12,
		InsecureSkipVerify: true, // VerifyConnection does it, by the pin
		VerifyConnection: func(c tls.ConnectionState) error {
			_, err := t.verify(c)
			return err
		},
	}
}

// verify finds the pinned authority in a handshake and checks the host's
// certificate against it.
func (t Token) verify(c tls.ConnectionState) (*x509.Certificate, error) {
	for _, cert := range c.PeerCertificates {
		sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
		if !cert.IsCA || !bytes.Equal(sum[:], t.Hash) {
			continue
		}
		roots := x509.NewCertPool()
		roots.AddCert(cert)
		_, err := c.PeerCertificates[0].Verify(x509.VerifyOptions{Roots: roots, DNSName: c.ServerName, KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}})
		if err != nil {
			return nil, fmt.Errorf("the host's certificate: %w", err)
		}
		return cert, nil
	}
	return nil, errors.New("the host does not show the authority that the join token pins: a wrong address, an old token, or somebody between")
}
