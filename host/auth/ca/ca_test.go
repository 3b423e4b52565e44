package ca

import (
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/tools/clientcmd"
)

func open(t *testing.T, dir string, now time.Time) *Authority {
	t.Helper()
	a, err := Open(dir, "test-ca", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func TestFirstStartMakesAnAuthorityThatLaterStartsReadAgain(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki")
	now := time.Now()
	first := open(t, dir, now)
	second := open(t, dir, now.Add(time.Hour))
	if diff := cmp.Diff(string(first.PEM()), string(second.PEM())); diff != "" {
		t.Errorf("the authority changed between two starts:\n%s", diff)
	}
	if got := first.Hash(); !strings.HasPrefix(got, "sha256:") || len(got) != len("sha256:")+64 {
		t.Errorf("Hash() = %q, want sha256: and 64 hex digits", got)
	}
}

func TestFilesAreReadableByTheirOwnerAlone(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "pki")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	a := open(t, dir, time.Now())
	if _, err := a.Serve([]string{"10.0.0.1"}); err != nil {
		t.Fatal(err)
	}
	if err := a.AdminKubeconfig(filepath.Join(dir, "kubeconfig"), "https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		want := fs.FileMode(0o600)
		if d.IsDir() {
			want = 0o700
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
		if strings.HasPrefix(d.Name(), ".") {
			t.Errorf("%s was left behind", path)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestDamageIsToldByFile(t *testing.T) {
	t.Parallel()
	write := func(name, text string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		harm func(*testing.T, string)
		want string
	}{
		"a key that is no PEM":         {write("ca.key", "hello"), "ca.key is damaged"},
		"a certificate that is no PEM": {write("ca.crt", "hello"), "ca.crt is damaged"},
		"a certificate cut short":      {write("ca.crt", "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"), "ca.crt is damaged"},
		"a lost key": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "ca.key")); err != nil {
				t.Fatal(err)
			}
		}, "ca.key is missing"},
		"a key of another authority": {func(t *testing.T, dir string) {
			if _, err := newKeyFile(filepath.Join(dir, "ca.key")); err != nil {
				t.Fatal(err)
			}
		}, "does not belong to"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			open(t, dir, time.Now())
			test.harm(t, dir)
			_, err := Open(dir, "test-ca", time.Now)
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("Open = %v, want an error with %q", err, test.want)
			}
		})
	}
}

func TestACrashBetweenKeyAndCertificateIsHealed(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := newKeyFile(filepath.Join(dir, "ca.key")); err != nil {
		t.Fatal(err)
	}
	open(t, dir, time.Now())
}

func TestServerCertificateIsRenewed(t *testing.T) {
	t.Parallel()
	start := time.Now()
	tests := map[string]struct {
		later time.Duration
		hosts []string
		renew bool
	}{
		"not while it is fresh":             {later: time.Hour, hosts: []string{"10.0.0.1", "node.example"}},
		"when a third of its life is left":  {later: 300 * 24 * time.Hour, hosts: []string{"10.0.0.1", "node.example"}, renew: true},
		"when an address is added":          {later: time.Hour, hosts: []string{"10.0.0.1", "node.example", "10.0.0.2"}, renew: true},
		"when a name is taken away":         {later: time.Hour, hosts: []string{"10.0.0.1"}, renew: true},
		"not for the unspecified addresses": {later: time.Hour, hosts: []string{"10.0.0.1", "node.example", "0.0.0.0", "::", ""}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			before := leafOf(t, open(t, dir, start), []string{"10.0.0.1", "node.example"})
			after := leafOf(t, open(t, dir, start.Add(test.later)), test.hosts)
			if got := !before.Equal(after); got != test.renew {
				t.Errorf("renewed = %v, want %v", got, test.renew)
			}
		})
	}
}

func leafOf(t *testing.T, a *Authority, hosts []string) *x509.Certificate {
	t.Helper()
	s, err := a.Serve(hosts)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := s.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	return cert.Leaf
}

func TestARunningServerRenewsInAHandshake(t *testing.T) {
	t.Parallel()
	now := time.Now()
	a, err := Open(t.TempDir(), "test-ca", func() time.Time { return now })
	if err != nil {
		t.Fatal(err)
	}
	s, err := a.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	before, _ := s.Certificate()
	now = now.Add(300 * 24 * time.Hour)
	after, err := s.Certificate()
	if err != nil {
		t.Fatal(err)
	}
	if !after.Leaf.NotAfter.After(before.Leaf.NotAfter) {
		t.Errorf("the certificate still ends at %s", after.Leaf.NotAfter)
	}
}

func TestHandshakes(t *testing.T) {
	t.Parallel()
	a, other := open(t, t.TempDir(), time.Now()), open(t, t.TempDir(), time.Now())
	tests := map[string]struct {
		issuer *Authority
		life   time.Duration
		fails  bool
	}{
		"a certificate of the authority comes in":          {issuer: a},
		"nobody's certificate comes in as nobody":          {},
		"a certificate of another authority is turned off": {issuer: other, fails: true},
		"an expired certificate is turned off":             {issuer: a, life: -time.Minute, fails: true},
	}
	server, err := a.Serve(nil)
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			client := &tls.Config{RootCAs: a.Pool(), ServerName: "localhost"}
			if test.issuer != nil {
				pair, err := test.issuer.Issue(Subject{Name: "someone", Life: test.life})
				if err != nil {
					t.Fatal(err)
				}
				cert, err := pair.TLS()
				if err != nil {
					t.Fatal(err)
				}
				// Sent whatever authorities the server asks for.
				client.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &cert, nil }
			}
			if err := handshake(server.TLS(), client); (err != nil) != test.fails {
				t.Errorf("handshake = %v, want an error: %v", err, test.fails)
			}
		})
	}
}

// handshake returns what the server says to the client's handshake.
func handshake(server, client *tls.Config) error {
	c, s := net.Pipe()
	defer c.Close()
	defer s.Close()
	go func() {
		conn := tls.Client(c, client)
		_ = conn.Handshake()
		_, _ = conn.Read(make([]byte, 1)) // TLS 1.3 reports the server's refusal here
	}()
	return tls.Server(s, server).Handshake()
}

func TestKubeconfigIsWhatClientGoReads(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), time.Now())
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := a.AdminKubeconfig(path, "https://127.0.0.1:6443"); err != nil {
		t.Fatal(err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", path)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ParseCertificate(config.CertData)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"system:masters"}, cert.Subject.Organization); diff != "" {
		t.Errorf("groups (-want +got):\n%s", diff)
	}
	if config.Host != "https://127.0.0.1:6443" {
		t.Errorf("server = %s", config.Host)
	}
}

func TestRequestsBelieveNothingButTheKey(t *testing.T) {
	t.Parallel()
	a := open(t, t.TempDir(), time.Now())
	key, err := newKey()
	if err != nil {
		t.Fatal(err)
	}
	csr := requestOf(t, key)
	got, err := a.Sign(csr, Subject{Name: "system:node:n1", Groups: []string{"system:nodes"}})
	if err != nil {
		t.Fatal(err)
	}
	cert, err := ParseCertificate(got)
	if err != nil {
		t.Fatal(err)
	}
	if cert.Subject.CommonName != "system:node:n1" || cert.IsCA || len(cert.DNSNames) > 0 || cert.Subject.Organization[0] != "system:nodes" {
		t.Errorf("the certificate took over what the request asked for: %v %v", cert.Subject, cert.DNSNames)
	}
	csr.Signature[10] ^= 1
	if _, err := a.Sign(csr, Subject{Name: "x"}); err == nil {
		t.Error("a request with a forged signature was signed")
	}
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := a.Sign(requestOf(t, weak), Subject{Name: "x"}); err == nil {
		t.Error("a weak key was signed")
	}
}

func requestOf(t testing.TB, key any) *x509.CertificateRequest {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:  pkix.Name{CommonName: "system:admin", Organization: []string{"system:masters"}},
		DNSNames: []string{"kubernetes"},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	csr, err := ParseRequest(pem.EncodeToMemory(&pem.Block{Type: blockCSR, Bytes: der}))
	if err != nil {
		t.Fatal(err)
	}
	return csr
}

func FuzzParseRequest(f *testing.F) {
	key, err := newKey()
	if err != nil {
		f.Fatal(err)
	}
	f.Add(pem.EncodeToMemory(&pem.Block{Type: blockCSR, Bytes: requestOf(f, key).Raw}))
	f.Add([]byte("-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		csr, err := ParseRequest(data)
		if err == nil && csr.PublicKey == nil {
			t.Error("a request without a key was read without an error")
		}
	})
}
