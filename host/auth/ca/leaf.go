package ca

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"
)

// Keep gives the pair that lies under name, as long as it is sound, says what s
// says and has more than a third of its life; else it signs a new one in its
// place. A leaf that is damaged is replaced too: nothing depends on its bytes.
func (a *Authority) Keep(name string, s Subject) (Pair, error) {
	crtPath, keyPath := a.path(name+".crt"), a.path(name+".key")
	if pair, ok := a.sound(crtPath, keyPath, s); ok {
		return pair, nil
	}
	pair, err := a.Issue(s)
	if err != nil {
		return Pair{}, err
	}
	if err := writeFile(keyPath, pair.Key); err != nil {
		return Pair{}, err
	}
	return pair, writeFile(crtPath, pair.Cert)
}

func (a *Authority) sound(crtPath, keyPath string, s Subject) (Pair, bool) {
	cert, certPEM, err := readCert(crtPath)
	if err != nil {
		return Pair{}, false
	}
	key, err := readKey(keyPath)
	if err != nil || !publicEqual(cert.PublicKey, key.Public()) {
		return Pair{}, false
	}
	if cert.CheckSignatureFrom(a.cert) != nil || !says(cert, s) || a.due(cert) {
		return Pair{}, false
	}
	keyPEM, err := encodeKey(key)
	if err != nil {
		return Pair{}, false
	}
	return Pair{Cert: certPEM, Key: keyPEM}, true
}

// due tells that two thirds of the certificate's life are over.
func (a *Authority) due(cert *x509.Certificate) bool {
	life := cert.NotAfter.Sub(cert.NotBefore)
	return a.now().After(cert.NotAfter.Add(-life / 3))
}

func says(cert *x509.Certificate, s Subject) bool {
	return cert.Subject.CommonName == s.Name &&
		slices.Equal(cert.Subject.Organization, s.Groups) &&
		slices.Equal(cert.DNSNames, s.DNS) &&
		slices.EqualFunc(cert.IPAddresses, s.IPs, net.IP.Equal)
}

// Leaf is a certificate that renews itself on the way to a handshake, so that a
// host which runs for years needs no restart.
type Leaf struct {
	authority *Authority
	name      string
	subject   Subject

	mu      sync.Mutex
	current *tls.Certificate
}

// Serve keeps the host's server certificate for the addresses, as server.crt.
// Hosts are names or addresses; loopback and the in-cluster names are always
// added.
func (a *Authority) Serve(hosts []string) (*Leaf, error) {
	return a.leaf("server", serverSubject(hosts))
}

// Client keeps a client certificate as NAME.crt.
func (a *Authority) Client(name string, s Subject) (*Leaf, error) { return a.leaf(name, s) }

func (a *Authority) leaf(name string, s Subject) (*Leaf, error) {
	l := &Leaf{authority: a, name: name, subject: s}
	return l, l.renew()
}

// Certificate is the one that holds now.
func (l *Leaf) Certificate() (*tls.Certificate, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.authority.due(l.current.Leaf) {
		return l.current, nil
	}
	if err := l.renew(); err != nil && l.authority.now().After(l.current.Leaf.NotAfter) {
		return nil, err
	}
	return l.current, nil
}

func (l *Leaf) renew() error {
	pair, err := l.authority.Keep(l.name, l.subject)
	if err != nil {
		return err
	}
	cert, err := pair.TLS()
	if err != nil {
		return err
	}
	// A machine that joins knows the authority by its hash alone: it finds the
	// certificate in the handshake.
	cert.Certificate = append(cert.Certificate, l.authority.cert.Raw)
	l.current = &cert
	return nil
}

// TLS is the host's listener configuration: it asks for a client certificate
// and lets those without one come in, who then show a token or stay anonymous.
// A certificate that the authority did not sign ends the handshake.
func (l *Leaf) TLS() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return l.Certificate() },
		ClientAuth:     tls.VerifyClientCertIfGiven,
		ClientCAs:      l.authority.Pool(),
		NextProtos:     []string{"h2", "http/1.1"},
	}
}

func serverSubject(hosts []string) Subject {
	s := Subject{
		Name: "berth-host",
		DNS:  []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc", "kubernetes.default.svc.cluster.local"},
		IPs:  []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback},
	}
	for _, host := range hosts {
		ip := net.ParseIP(host)
		switch {
		case host == "" || ip != nil && ip.IsUnspecified():
			continue
		case ip == nil && !slices.Contains(s.DNS, host):
			s.DNS = append(s.DNS, host)
		case ip != nil && !slices.ContainsFunc(s.IPs, ip.Equal):
			s.IPs = append(s.IPs, ip)
		}
	}
	return s
}

// strongKey refuses keys that a guess could find.
func strongKey(key any) error {
	switch k := key.(type) {
	case *ecdsa.PublicKey:
		return nil // crypto/x509 knows P-224 and up
	case ed25519.PublicKey:
		return nil
	case *rsa.PublicKey:
		if k.N.BitLen() < 2048 || k.N.BitLen() > 8192 {
			return fmt.Errorf("an RSA key of %d bits is refused: 2048 to 8192", k.N.BitLen())
		}
		return nil
	}
	return fmt.Errorf("a key of type %T is refused: use ECDSA, Ed25519 or RSA", key)
}

// Expiry is when a certificate in PEM ends; agents renew at two thirds.
func Expiry(certPEM []byte) (time.Time, error) {
	cert, err := ParseCertificate(certPEM)
	if err != nil {
		return time.Time{}, err
	}
	return cert.NotAfter, nil
}
