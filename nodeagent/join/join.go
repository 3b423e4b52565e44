package join

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/connrotation"
)

// path is where the host lets machines in.
const path = "/berth/v1/join"

// Config is what joining needs. Server, NodeName and Dir are required, Token
// only where Dir holds no certificates yet.
type Config struct {
	// Server is the host's URL, https://….
	Server   string
	Token    string
	NodeName string
	// Addresses are those by which the host reaches this machine.
	Addresses []net.IP
	// Dir keeps keys and certificates.
	Dir string
	Log *slog.Logger
}

// Identity is a machine's standing with its host. It stays usable while Run
// renews it.
type Identity struct {
	cfg  Config
	held atomic.Pointer[held]
	// conns are the connections of REST, closed when the certificate changes.
	conns *connrotation.Dialer
}

// held is one set of certificates.
type held struct {
	client, serving tls.Certificate
	authority       *x509.CertPool
	until           time.Time
	from            time.Time
	files           files
}

type request struct {
	NodeName   string `json:"nodeName"`
	ClientCSR  string `json:"clientCSR"`
	ServingCSR string `json:"servingCSR"`
}

type response struct {
	ClientCertificate  string `json:"clientCertificate"`
	ServingCertificate string `json:"servingCertificate"`
	CACertificate      string `json:"caCertificate"`
}

// Join gives the identity that Dir holds, or gets one with the token: also where
// Dir's is of another authority than the one that the token pins.
func Join(ctx context.Context, cfg Config) (*Identity, error) {
	u, err := url.Parse(cfg.Server)
	if err != nil || u.Scheme != "https" || u.Host == "" {
		return nil, fmt.Errorf("join: server %q: want https://HOST:PORT", cfg.Server)
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	id := &Identity{cfg: cfg, conns: connrotation.NewDialer((&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 30 * time.Second}).DialContext)}
	h, err := load(cfg.Dir, cfg.NodeName)
	switch {
	case err == nil && time.Now().Before(h.until) && !elsewhere(cfg.Token, h):
		id.held.Store(h)
		return id, id.readdress(ctx)
	case err == nil:
		cfg.Log.Info("the certificates on disk have ended, or are of another authority than the token's; joining anew", "until", h.until)
	case !errors.Is(err, errNone):
		cfg.Log.Warn("the certificates on disk can not be used; joining anew", "err", err)
	}
	if cfg.Token == "" {
		return nil, fmt.Errorf("join: this machine has no certificates for node %s that hold: give it a token (`berth token create`)", cfg.NodeName)
	}
	token, err := ParseToken(cfg.Token)
	if err != nil {
		return nil, err
	}
	if h, err = id.ask(ctx, token.tlsConfig(), token.Bearer, &token); err != nil {
		return nil, fmt.Errorf("join %s: %w", cfg.Server, err)
	}
	id.held.Store(h)
	cfg.Log.Info("joined", "node", cfg.NodeName, "server", cfg.Server)
	return id, nil
}

// elsewhere tells a token of another cluster than the one that signed what is held.
func elsewhere(text string, h *held) bool {
	token, err := ParseToken(text)
	return err == nil && token.signed(string(h.files.authority)) != nil
}

// readdress gets new certificates where the host reaches this machine by other
// addresses than when it joined.
func (id *Identity) readdress(ctx context.Context) error {
	has := id.held.Load().serving.Leaf.IPAddresses
	for _, a := range id.cfg.Addresses {
		if slices.ContainsFunc(has, a.Equal) {
			continue
		}
		h, err := id.ask(ctx, id.tlsConfig(), "", nil)
		if err != nil {
			return fmt.Errorf("join %s: certificates for %s: %w", id.cfg.Server, a, err)
		}
		id.held.Store(h)
		id.cfg.Log.Info("certificates are renewed, as this machine has another address", "address", a)
		return nil
	}
	return nil
}

// REST gives a client configuration that always uses the newest certificate.
func (id *Identity) REST() *rest.Config {
	return &rest.Config{Host: id.cfg.Server, Transport: &http.Transport{
		DialContext: id.conns.DialContext, TLSClientConfig: id.tlsConfig(), ForceAttemptHTTP2: true,
		TLSHandshakeTimeout: 10 * time.Second, IdleConnTimeout: 90 * time.Second, MaxIdleConnsPerHost: 25,
	}}
}

// tlsConfig is for connections to the host.
func (id *Identity) tlsConfig() *tls.Config {
	return &tls.Config{
		MinVersion: tls.VersionTLS12, RootCAs: id.held.Load().authority, NextProtos: []string{"h2", "http/1.1"},
		GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &id.held.Load().client, nil },
	}
}

// Certificate gives the newest serving certificate.
func (id *Identity) Certificate() (*tls.Certificate, error) { return &id.held.Load().serving, nil }

// Authority verifies the host.
func (id *Identity) Authority() *x509.CertPool { return id.held.Load().authority }

// Run renews the certificates when a third of their life is left, until ctx
// ends.
func (id *Identity) Run(ctx context.Context) error {
	wait := time.Duration(0)
	for {
		h := id.held.Load()
		due := h.until.Add(-h.until.Sub(h.from) / 3)
		timer := time.NewTimer(max(time.Until(due), wait))
		select {
		case <-ctx.Done():
			timer.Stop()
			return ctx.Err()
		case <-timer.C:
		}
		fresh, err := id.ask(ctx, id.tlsConfig(), "", nil)
		if err != nil {
			wait = min(max(2*wait, time.Minute), time.Hour)
			id.cfg.Log.Warn("renew this machine's certificates", "err", err, "again", wait, "hold until", h.until)
			continue
		}
		wait = time.Second
		id.held.Store(fresh)
		id.conns.CloseAll()
		id.cfg.Log.Info("certificates are renewed", "until", fresh.until)
	}
}

// ask makes keys and has the host sign them.
func (id *Identity) ask(ctx context.Context, conf *tls.Config, bearer string, pinned *Token) (*held, error) {
	clientKey, clientCSR, err := id.sign(nil)
	if err != nil {
		return nil, err
	}
	servingKey, servingCSR, err := id.sign(id.cfg.Addresses)
	if err != nil {
		return nil, err
	}
	conf = conf.Clone()
	conf.NextProtos = []string{"http/1.1"}
	answer, err := id.post(ctx, conf, bearer, request{NodeName: id.cfg.NodeName, ClientCSR: clientCSR, ServingCSR: servingCSR})
	if err != nil {
		return nil, err
	}
	f := files{clientKey: clientKey, clientCert: []byte(answer.ClientCertificate), servingKey: servingKey,
		servingCert: []byte(answer.ServingCertificate), authority: []byte(answer.CACertificate)}
	h, err := f.parse(id.cfg.NodeName)
	if err != nil {
		return nil, fmt.Errorf("the host's answer: %w", err)
	}
	if pinned != nil {
		if err := pinned.signed(answer.CACertificate); err != nil {
			return nil, err
		}
	}
	return h, f.save(id.cfg.Dir)
}

// signed checks that the authority in the answer is the pinned one.
func (t Token) signed(authority string) error {
	block, _ := pem.Decode([]byte(authority))
	if block == nil {
		return errors.New("the host's answer holds no authority")
	}
	cert, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return err
	}
	_, err = t.verify(tls.ConnectionState{PeerCertificates: []*x509.Certificate{cert}})
	if err == nil || bytes.Equal(hashOf(cert), t.Hash) {
		return nil
	}
	return errors.New("the host answered with another authority than the join token pins")
}

func (id *Identity) sign(addresses []net.IP) (key []byte, csr string, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, "", err
	}
	der, err := x509.MarshalPKCS8PrivateKey(private)
	if err != nil {
		return nil, "", err
	}
	template := &x509.CertificateRequest{
		Subject:     pkix.Name{CommonName: "system:node:" + id.cfg.NodeName, Organization: []string{"system:nodes"}},
		DNSNames:    []string{id.cfg.NodeName},
		IPAddresses: addresses,
	}
	req, err := x509.CreateCertificateRequest(rand.Reader, template, private)
	if err != nil {
		return nil, "", err
	}
	return pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der}),
		string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: req})), nil
}

func (id *Identity) post(ctx context.Context, conf *tls.Config, bearer string, body request) (response, error) {
	var out response
	data, err := json.Marshal(body)
	if err != nil {
		return out, err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(id.cfg.Server, "/")+path, bytes.NewReader(data))
	if err != nil {
		return out, err
	}
	req.Header.Set("Content-Type", "application/json")
	if bearer != "" {
		req.Header.Set("Authorization", "Bearer "+bearer)
	}
	transport := &http.Transport{TLSClientConfig: conf, DisableKeepAlives: true}
	client := &http.Client{Transport: transport, Timeout: 30 * time.Second,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	resp, err := client.Do(req)
	if err != nil {
		return out, err
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return out, err
	}
	if resp.StatusCode != http.StatusOK {
		var status struct {
			Message string `json:"message"`
		}
		if json.Unmarshal(answer, &status) != nil || status.Message == "" {
			status.Message = string(answer[:min(len(answer), 200)])
		}
		return out, fmt.Errorf("the host refuses (%d): %s", resp.StatusCode, status.Message)
	}
	if err := json.Unmarshal(answer, &out); err != nil {
		return out, fmt.Errorf("the host's answer: %w", err)
	}
	return out, nil
}
