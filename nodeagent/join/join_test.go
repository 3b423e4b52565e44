package join

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/berth-dev/berth/host/polltest"
)

// host is a small host that signs what it is asked to.
type host struct {
	t      *testing.T
	key    *ecdsa.PrivateKey
	ca     *x509.Certificate
	server *httptest.Server
	life   time.Duration

	mu     sync.Mutex
	asked  []string
	serial int64
}

const bearer = "abcdef.0123456789abcdef"

func newHost(t *testing.T) *host {
	h := &host{t: t, life: time.Hour, serial: 1}
	var err error
	if h.key, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader); err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "ca"}, IsCA: true, BasicConstraintsValid: true,
		NotBefore: time.Now().Add(-time.Minute), NotAfter: time.Now().Add(time.Hour), KeyUsage: x509.KeyUsageCertSign}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &h.key.PublicKey, h.key)
	if err != nil {
		t.Fatal(err)
	}
	if h.ca, err = x509.ParseCertificate(der); err != nil {
		t.Fatal(err)
	}
	serving, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	leaf := h.sign(&serving.PublicKey, "host", []net.IP{net.ParseIP("127.0.0.1")})
	h.server = httptest.NewUnstartedServer(http.HandlerFunc(h.answer))
	pool := x509.NewCertPool()
	pool.AddCert(h.ca)
	h.server.TLS = &tls.Config{ClientCAs: pool, ClientAuth: tls.VerifyClientCertIfGiven,
		Certificates: []tls.Certificate{{Certificate: [][]byte{leaf, h.ca.Raw}, PrivateKey: serving}}}
	h.server.StartTLS()
	t.Cleanup(h.server.Close)
	return h
}

func (h *host) sign(key any, name string, ips []net.IP) []byte {
	h.mu.Lock()
	h.serial++
	serial := h.serial
	h.mu.Unlock()
	der, err := x509.CreateCertificate(rand.Reader, &x509.Certificate{
		SerialNumber: big.NewInt(serial), Subject: pkix.Name{CommonName: name}, IPAddresses: ips,
		NotBefore: time.Now(), NotAfter: time.Now().Add(h.life),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}, h.ca, key, h.key)
	if err != nil {
		h.t.Error(err)
	}
	return der
}

func certPEM(der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func (h *host) answer(w http.ResponseWriter, r *http.Request) {
	by := r.Header.Get("Authorization")
	if len(r.TLS.PeerCertificates) > 0 {
		by = r.TLS.PeerCertificates[0].Subject.CommonName
	}
	if r.URL.Path != path {
		w.Write([]byte(by))
		return
	}
	h.mu.Lock()
	h.asked = append(h.asked, by)
	h.mu.Unlock()
	var req request
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
		h.t.Error(err)
	}
	if by != "Bearer "+bearer && by != "system:node:"+req.NodeName {
		w.WriteHeader(http.StatusUnauthorized)
		w.Write([]byte(`{"kind":"Status","message":"the token does not hold"}`))
		return
	}
	parse := func(text string) *x509.CertificateRequest {
		block, _ := pem.Decode([]byte(text))
		csr, err := x509.ParseCertificateRequest(block.Bytes)
		if err != nil || csr.CheckSignature() != nil {
			h.t.Errorf("certificate request: %v", err)
		}
		return csr
	}
	client, serving := parse(req.ClientCSR), parse(req.ServingCSR)
	json.NewEncoder(w).Encode(response{
		ClientCertificate:  certPEM(h.sign(client.PublicKey, "system:node:"+req.NodeName, nil)),
		ServingCertificate: certPEM(h.sign(serving.PublicKey, "system:node:"+req.NodeName, serving.IPAddresses)),
		CACertificate:      certPEM(h.ca.Raw),
	})
}

func (h *host) times() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.asked)
}

func (h *host) config(t *testing.T) Config {
	return Config{Server: h.server.URL, NodeName: "n1", Dir: filepath.Join(t.TempDir(), "pki"), Addresses: []net.IP{net.ParseIP("192.0.2.7")},
		Token: bearer + ":sha256:" + hex.EncodeToString(hashOf(h.ca))}
}

func TestAMachineJoinsOnceAndKeepsItsIdentity(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	cfg := h.config(t)
	id, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(cfg.Dir, fileName))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("identity file: %v, %v", info, err)
	}
	serving, err := id.Certificate()
	if err != nil || len(serving.Leaf.IPAddresses) != 1 || !serving.Leaf.IPAddresses[0].Equal(net.ParseIP("192.0.2.7")) {
		t.Errorf("serving certificate for %v, %v", serving.Leaf.IPAddresses, err)
	}
	cfg.Token = ""
	again, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatalf("second start: %v", err)
	}
	if h.times() != 1 {
		t.Errorf("asked %d times, want once", h.times())
	}
	client := &http.Client{Transport: again.REST().Transport}
	resp, err := client.Get(h.server.URL + "/whoami")
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	who := make([]byte, 64)
	n, _ := resp.Body.Read(who)
	if got := string(who[:n]); got != "system:node:n1" {
		t.Errorf("the host sees %q", got)
	}
}

func TestAMachineWithAnotherAddressGetsCertificatesForIt(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	cfg := h.config(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	cfg.Token, cfg.Addresses = "", []net.IP{net.ParseIP("192.0.2.8")}
	for range 2 {
		id, err := Join(t.Context(), cfg)
		if err != nil {
			t.Fatal(err)
		}
		serving, err := id.Certificate()
		if err != nil || len(serving.Leaf.IPAddresses) != 1 || !serving.Leaf.IPAddresses[0].Equal(cfg.Addresses[0]) {
			t.Errorf("serving certificate for %v, %v", serving.Leaf.IPAddresses, err)
		}
	}
	if h.times() != 2 {
		t.Errorf("asked %d times, want once for each address", h.times())
	}
}

// A host that lost its authority, or is another one, has the machine anew.
func TestAMachineJoinsAnotherHostByItsToken(t *testing.T) {
	t.Parallel()
	first, second := newHost(t), newHost(t)
	cfg := first.config(t)
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	next := second.config(t)
	next.Dir = cfg.Dir
	id, err := Join(t.Context(), next)
	if err != nil {
		t.Fatal(err)
	}
	if second.times() != 1 {
		t.Errorf("the other host was asked %d times", second.times())
	}
	transport, err := rest.TransportFor(id.REST())
	if err != nil {
		t.Fatal(err)
	}
	answer, err := (&http.Client{Transport: transport}).Get(second.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	_ = answer.Body.Close()
	next.Token = "" // it is kept
	if _, err := Join(t.Context(), next); err != nil || second.times() != 1 {
		t.Errorf("without a token: %v, asked %d times", err, second.times())
	}
}

func TestJoinIsRefused(t *testing.T) {
	t.Parallel()
	h, other := newHost(t), newHost(t)
	for name, test := range map[string]struct {
		change func(*Config)
		want   string
	}{
		"with another cluster's pin": {func(c *Config) { c.Token = bearer + ":sha256:" + hex.EncodeToString(hashOf(other.ca)) }, "pins"},
		"with a wrong secret":        {func(c *Config) { c.Token = "abcdef.ffffffffffffffff" + c.Token[len(bearer):] }, "does not hold"},
		"without a token":            {func(c *Config) { c.Token = "" }, "give it a token"},
		"with half a token":          {func(c *Config) { c.Token = bearer }, "ID.SECRET"},
		"over plain HTTP":            {func(c *Config) { c.Server = "http://127.0.0.1:1" }, "https"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cfg := h.config(t)
			test.change(&cfg)
			_, err := Join(t.Context(), cfg)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Join: %v, want %q", err, test.want)
			}
			if _, err := os.Stat(cfg.Dir); err == nil {
				t.Errorf("a refused join left files")
			}
		})
	}
}

func TestCertificatesAreRenewedBeforeTheyEnd(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.life = 3 * time.Second
	cfg := h.config(t)
	id, err := Join(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	first, _ := id.Certificate()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	done := make(chan error, 1)
	go func() { done <- id.Run(ctx) }()
	polltest.Until(t, "the certificate is another", func() bool {
		now, _ := id.Certificate()
		return h.times() >= 2 && now != first
	})
	cancel()
	<-done
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.asked) < 2 || h.asked[1] != "system:node:n1" {
		t.Errorf("asked by %v, want the token, then the node", h.asked)
	}
}

func TestDamagedIdentityIsReplaced(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	cfg := h.config(t)
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(cfg.Dir, fileName), []byte("nonsense"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Join(t.Context(), cfg); err != nil {
		t.Errorf("Join: %v", err)
	}
}

func FuzzParseToken(f *testing.F) {
	f.Add(bearer + ":sha256:" + strings.Repeat("0a", 32))
	f.Add("a.b:c")
	f.Fuzz(func(t *testing.T, text string) {
		tok, err := ParseToken(text)
		if err == nil && (len(tok.Bearer) != 23 || len(tok.Hash) != 32) {
			t.Errorf("ParseToken(%q) = %+v", text, tok)
		}
	})
}
