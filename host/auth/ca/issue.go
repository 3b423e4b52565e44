package ca

import (
	"crypto"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"slices"
	"time"
)

// Subject is whom a certificate names and what it may be used for.
type Subject struct {
	// Name is the user (CN), Groups are the user's groups (O).
	Name   string
	Groups []string
	// DNS names and addresses that a server certificate answers for. Without
	// any the certificate is a client's.
	DNS []string
	IPs []net.IP
	// Life is how long it holds; 0 is a year.
	Life time.Duration
}

func (s Subject) server() bool { return len(s.DNS)+len(s.IPs) > 0 }

// Identities of the parts that run beside the API.
var (
	Admin             = Subject{Name: "berth-admin", Groups: []string{"system:masters"}}
	Scheduler         = Subject{Name: "system:kube-scheduler"}
	ControllerManager = Subject{Name: "system:kube-controller-manager"}
	// AgentClient is whom the host is to the node agents' servers.
	AgentClient = Subject{Name: "berth-host", Groups: []string{"system:masters"}}
	// FrontProxyClient is whom the host is to the servers behind APIServices. To
	// the host itself it is nobody.
	FrontProxyClient = Subject{Name: "front-proxy-client"}
)

// Pair is a certificate with its key, both in PEM.
type Pair struct{ Cert, Key []byte }

// TLS is the pair as crypto/tls takes it.
func (p Pair) TLS() (tls.Certificate, error) {
	cert, err := tls.X509KeyPair(p.Cert, p.Key)
	if err != nil {
		return tls.Certificate{}, fmt.Errorf("read a certificate and its key: %w", err)
	}
	return cert, nil
}

// Issue makes a key and signs a certificate for it; nothing is kept.
func (a *Authority) Issue(s Subject) (Pair, error) {
	key, err := newKey()
	if err != nil {
		return Pair{}, err
	}
	der, err := a.sign(s, key.Public())
	if err != nil {
		return Pair{}, err
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, err
	}
	return Pair{Cert: encodeCert(der), Key: keyPEM}, nil
}

// Sign signs for the key of a certificate request. The request proves that its
// sender has the key; whom the certificate names is the caller's decision, and
// nothing else of the request is believed.
//
// # Errors
// A request that does not parse, whose signature does not hold, or whose key
// is weak.
func (a *Authority) Sign(csr *x509.CertificateRequest, s Subject) ([]byte, error) {
	if err := csr.CheckSignature(); err != nil {
		return nil, fmt.Errorf("the certificate request is not signed with its own key: %w", err)
	}
	if err := strongKey(csr.PublicKey); err != nil {
		return nil, err
	}
	der, err := a.sign(s, csr.PublicKey)
	if err != nil {
		return nil, err
	}
	return encodeCert(der), nil
}

// maxRequest bounds the bytes of a certificate request.
const maxRequest = 16 << 10

// ParseRequest reads one certificate request in PEM.
func ParseRequest(data []byte) (*x509.CertificateRequest, error) {
	if len(data) > maxRequest {
		return nil, fmt.Errorf("a certificate request of %d bytes is too large: %d at most", len(data), maxRequest)
	}
	block, rest := pem.Decode(data)
	if block == nil || block.Type != blockCSR {
		return nil, fmt.Errorf("expected a PEM block of type %s", blockCSR)
	}
	if next, _ := pem.Decode(rest); next != nil {
		return nil, errors.New("expected one certificate request, got several")
	}
	csr, err := x509.ParseCertificateRequest(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("read the certificate request: %w", err)
	}
	if csr.PublicKey == nil {
		return nil, errors.New("read the certificate request: its key is of an unknown algorithm: use ECDSA, Ed25519 or RSA")
	}
	return csr, nil
}

func (a *Authority) sign(s Subject, public crypto.PublicKey) ([]byte, error) {
	if s.Name == "" {
		return nil, errors.New("a certificate needs a name")
	}
	serial, err := newSerial()
	if err != nil {
		return nil, err
	}
	life := s.Life
	if life == 0 {
		life = leafLife
	}
	now := a.now()
	template := &x509.Certificate{
		SerialNumber:          serial,
		Subject:               pkix.Name{CommonName: s.Name, Organization: slices.Clone(s.Groups)},
		NotBefore:             now.Add(-backdate),
		NotAfter:              now.Add(life),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
	}
	if s.server() {
		template.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
		template.DNSNames, template.IPAddresses = s.DNS, s.IPs
	}
	if template.NotAfter.After(a.cert.NotAfter) {
		template.NotAfter = a.cert.NotAfter
	}
	der, err := x509.CreateCertificate(rand.Reader, template, a.cert, public, a.key)
	if err != nil {
		return nil, fmt.Errorf("sign a certificate for %s: %w", s.Name, err)
	}
	return der, nil
}
