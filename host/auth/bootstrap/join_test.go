package bootstrap

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/auth/authn"
	"github.com/berth-dev/berth/host/auth/ca"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/auth/view/viewtest"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

type cluster struct {
	objects          *viewtest.Memory
	clients, servers *ca.Authority
	handler          *Handler
	token            string
	now              time.Time
}

func newCluster(t testing.TB) *cluster {
	t.Helper()
	c := &cluster{objects: &viewtest.Memory{}, now: time.Now()}
	clock := func() time.Time { return c.now }
	var err error
	if c.clients, err = ca.Open(t.TempDir(), "clients", clock); err != nil {
		t.Fatal(err)
	}
	if c.servers, err = ca.Open(t.TempDir(), "servers", clock); err != nil {
		t.Fatal(err)
	}
	if c.token, err = authn.NewToken(t.Context(), c.objects, time.Hour, "", c.now); err != nil {
		t.Fatal(err)
	}
	who := authn.NewRequests(clock, authn.NewBootstrap(c.objects, clock))
	c.handler = New(Config{Who: who, Objects: c.objects, Clients: c.clients, Servers: c.servers, Now: clock})
	return c
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func csr(t testing.TB, key *ecdsa.PrivateKey) string {
	t.Helper()
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "kubernetes", Organization: []string{"system:masters"}},
		DNSNames:    []string{"kubernetes", "localhost"},
		IPAddresses: []net.IP{net.IPv4(10, 0, 0, 7)},
	}, key)
	if err != nil {
		t.Fatal(err)
	}
	return string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}))
}

func body(t testing.TB, name string, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	data, err := json.Marshal(Request{NodeName: name, ClientCSR: csr(t, key), ServingCSR: csr(t, newKey(t))})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// post sends a join; as is a node's client certificate, or nil for the token.
func (c *cluster) post(t testing.TB, data []byte, as *x509.Certificate) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequest(http.MethodPost, Path, bytes.NewReader(data))
	r.Header.Set("Content-Type", "application/json")
	r.TLS = &tls.ConnectionState{}
	if as != nil {
		r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{as}, VerifiedChains: [][]*x509.Certificate{{as}}}
	} else {
		r.Header.Set("Authorization", "Bearer "+c.token)
	}
	w := httptest.NewRecorder()
	c.handler.ServeHTTP(w, r)
	return w
}

func (c *cluster) join(t *testing.T, name string, key *ecdsa.PrivateKey, as *x509.Certificate) (client, serving *x509.Certificate) {
	t.Helper()
	w := c.post(t, body(t, name, key), as)
	if w.Code != http.StatusOK {
		t.Fatalf("join = %d %s", w.Code, w.Body)
	}
	var answer Response
	if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil {
		t.Fatal(err)
	}
	if answer.CACertificate != string(c.clients.PEM()) {
		t.Error("the answer has another authority")
	}
	client, err := ca.ParseCertificate([]byte(answer.ClientCertificate))
	if err != nil {
		t.Fatal(err)
	}
	serving, err = ca.ParseCertificate([]byte(answer.ServingCertificate))
	if err != nil {
		t.Fatal(err)
	}
	return client, serving
}

func TestAMachineJoinsAndRenews(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	key := newKey(t)
	client, serving := c.join(t, "n1", key, nil)
	if client.Subject.CommonName != "system:node:n1" || len(client.Subject.Organization) != 1 || client.Subject.Organization[0] != "system:nodes" {
		t.Errorf("client certificate for %v", client.Subject)
	}
	if _, err := client.Verify(x509.VerifyOptions{Roots: c.clients.Pool(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
		t.Error(err)
	}
	if _, err := serving.Verify(x509.VerifyOptions{Roots: c.servers.Pool(), DNSName: "n1"}); err != nil {
		t.Error(err)
	}
	if _, err := serving.Verify(x509.VerifyOptions{Roots: c.clients.Pool(), DNSName: "n1"}); err == nil {
		t.Error("clients of the host would trust a machine's server")
	}
	for _, name := range []string{"kubernetes", "localhost", "n2"} {
		if serving.VerifyHostname(name) == nil {
			t.Errorf("the serving certificate stands for %s", name)
		}
	}
	c.objects.Put(view.Leases, lease("n1", c.now))
	renewed, _ := c.join(t, "n1", newKey(t), client)
	if renewed.SerialNumber.Cmp(client.SerialNumber) == 0 {
		t.Error("the renewed certificate is the old one")
	}
	if w := c.post(t, body(t, "n2", newKey(t)), client); w.Code != http.StatusForbidden {
		t.Errorf("a machine renewed another's name: %d %s", w.Code, w.Body)
	}
}

func lease(name string, renewed time.Time) *coordinationv1.Lease {
	at := metav1.NewMicroTime(renewed)
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-node-lease", Name: name},
		Spec:       coordinationv1.LeaseSpec{RenewTime: &at},
	}
}

func TestNamesOfLiveMachinesAreTaken(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	key := newKey(t)
	c.join(t, "n1", key, nil)
	c.join(t, "n1", key, nil) // the answer was lost
	if w := c.post(t, body(t, "n1", newKey(t)), nil); w.Code != http.StatusConflict {
		t.Errorf("a second machine took the name: %d", w.Code)
	}
	c.now = c.now.Add(time.Minute)
	c.objects.Put(view.Leases, lease("n1", c.now.Add(-39*time.Second)))
	w := c.post(t, body(t, "n1", newKey(t)), nil)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "live") {
		t.Errorf("the name of a live machine was taken: %d %s", w.Code, w.Body)
	}
	c.now = c.now.Add(2 * time.Second)
	c.join(t, "n1", newKey(t), nil)
}

func TestBadJoinsAreToldApart(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	good := string(body(t, "n1", newKey(t)))
	tests := map[string]struct {
		body string
		code int
		want string
	}{
		"no JSON":                {"hello", 400, "no join request"},
		"nothing":                {"", 400, "no join request"},
		"something behind":       {good + "{}", 400, "goes on"},
		"an unknown field":       {`{"nodeName":"n1","role":"master"}`, 400, "role"},
		"a name with a path":     {strings.Replace(good, `"n1"`, `"../n1"`, 1), 400, "nodeName"},
		"a name with a colon":    {strings.Replace(good, `"n1"`, `"n1:system"`, 1), 400, "nodeName"},
		"no name":                {strings.Replace(good, `"n1"`, `""`, 1), 400, "nodeName"},
		"a request cut short":    {`{"nodeName":"n1","clientCSR":"-----BEGIN CERTIFICATE REQUEST-----\nAAAA\n-----END CERTIFICATE REQUEST-----\n"}`, 400, "clientCSR"},
		"a body without an end":  {good + strings.Repeat(" ", maxBody), 413, "limit"},
		"a certificate for both": {`{"nodeName":"n1","clientCSR":"x","servingCSR":"y"}`, 400, "clientCSR"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := c.post(t, []byte(test.body), nil)
			if w.Code != test.code || !strings.Contains(w.Body.String(), test.want) || !strings.Contains(w.Body.String(), `"Status"`) {
				t.Errorf("join = %d %s, want %d with %q", w.Code, w.Body, test.code, test.want)
			}
		})
	}
}

func TestWhoMayNotJoin(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	person := &x509.Certificate{Subject: pkix.Name{CommonName: "erin"}, NotAfter: c.now.Add(time.Hour)}
	if w := c.post(t, body(t, "n1", newKey(t)), person); w.Code != http.StatusForbidden {
		t.Errorf("a user joined a machine: %d", w.Code)
	}
	c.token = "aaaaaa.bbbbbbbbbbbbbbbb"
	if w := c.post(t, body(t, "n1", newKey(t)), nil); w.Code != http.StatusUnauthorized {
		t.Errorf("a token that nobody made joined a machine: %d", w.Code)
	}
	r := httptest.NewRequest(http.MethodGet, Path, nil)
	w := httptest.NewRecorder()
	if c.handler.ServeHTTP(w, r); w.Code != http.StatusMethodNotAllowed {
		t.Errorf("GET = %d", w.Code)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(body(f, "n1", newKey(f)))
	f.Add([]byte(`{"nodeName":"n1","clientCSR":"","servingCSR":""}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		ask, err := parse(data)
		if (ask == nil) == (err == nil) {
			t.Errorf("parse = %v, %v", ask, err)
		}
	})
}
