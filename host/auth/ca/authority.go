package ca

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"os"
	"path/filepath"
	"time"
)

// Lifetimes. A leaf is renewed when a third of its life is left.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	leafLife      = 365 * 24 * time.Hour
	// backdate forgives machines whose clocks lag behind the host's.
	backdate = 5 * time.Minute
)

// Authority signs certificates with the key that lies under its directory.
type Authority struct {
	dir  string
	name string
	cert *x509.Certificate
	key  crypto.Signer
	pem  []byte
	now  func() time.Time
}

// Open reads the authority under dir, or makes it when there is none yet, under
// the common name.
func Open(dir, name string, now func() time.Time) (*Authority, error) {
	if err := secureDir(dir); err != nil {
		return nil, err
	}
	a := &Authority{dir: dir, name: name, now: now}
	key, err := a.authorityKey()
	if err != nil {
		return nil, err
	}
	a.key = key
	if err := a.loadOrSign(); err != nil {
		return nil, err
	}
	return a, nil
}

// authorityKey reads ca.key, or makes it if neither key nor certificate exist.
func (a *Authority) authorityKey() (crypto.Signer, error) {
	path := a.path("ca.key")
	key, err := readKey(path)
	if !errors.Is(err, fs.ErrNotExist) {
		return key, err
	}
	if _, err := os.Stat(a.path("ca.crt")); err == nil {
		return nil, fmt.Errorf("%s is missing, but %s is there: restore the key, or remove the directory %s to begin a new authority (every client then needs new credentials)",
			path, a.path("ca.crt"), a.dir)
	}
	return newKeyFile(path)
}

// loadOrSign reads ca.crt. A key without a certificate is what a crash between
// the two writes leaves behind: the certificate is signed then.
func (a *Authority) loadOrSign() error {
	path := a.path("ca.crt")
	cert, data, err := readCert(path)
	if errors.Is(err, fs.ErrNotExist) {
		return a.signSelf(path)
	}
	if err != nil {
		return err
	}
	if !publicEqual(cert.PublicKey, a.key.Public()) {
		return fmt.Errorf("%s does not belong to %s: restore the pair from one backup", path, a.path("ca.key"))
	}
	if !cert.IsCA {
		return fmt.Errorf("%s is no certificate authority: restore it from a backup", path)
	}
	if now := a.now(); now.After(cert.NotAfter) {
		return fmt.Errorf("%s expired at %s: remove it to have a new one signed with the same key", path, cert.NotAfter.Format(time.RFC3339))
	}
	a.cert, a.pem = cert, data
	return nil
}

func (a *Authority) signSelf(path string) error {
	serial, err := newSerial()
	if err != nil {
		return err
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: a.name},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(authorityLife),
		KeyUsage:              x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature | x509.KeyUsageCRLSign,
		BasicConstraintsValid: true,
		IsCA:                  true,
		MaxPathLenZero:        true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, a.key.Public(), a.key)
	if err != nil {
		return fmt.Errorf("sign the authority's own certificate: %w", err)
	}
	if a.cert, err = x509.ParseCertificate(der); err != nil {
		return fmt.Errorf("read the authority's own certificate back: %w", err)
	}
	a.pem = encodeCert(der)
	return writeFile(path, a.pem)
}

// PEM is the authority's certificate, as clients take it to trust the host.
func (a *Authority) PEM() []byte { return append([]byte(nil), a.pem...) }

// Pool trusts this authority and nobody else.
func (a *Authority) Pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.cert)
	return pool
}

// Hash is the pin of the authority: "sha256:" and the hex digest of its
// subject public key info, the form that kubeadm uses.
func (a *Authority) Hash() string { return HashOf(a.cert) }

// HashOf is Hash for a certificate that came from elsewhere.
func HashOf(cert *x509.Certificate) string {
	sum := sha256.Sum256(cert.RawSubjectPublicKeyInfo)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func (a *Authority) path(name string) string { return filepath.Join(a.dir, name) }

func newKey() (*ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make a key: %w", err)
	}
	return key, nil
}

func newSerial() (*big.Int, error) {
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 127))
	if err != nil {
		return nil, fmt.Errorf("make a serial number: %w", err)
	}
	return serial.Add(serial, big.NewInt(1)), nil
}

func publicEqual(a, b any) bool {
	eq, ok := a.(interface{ Equal(crypto.PublicKey) bool })
	return ok && eq.Equal(b)
}
