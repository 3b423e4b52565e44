package main

import (
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
	"math/big"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// etcd is a server of one's own on loopback, in a folder.
type etcd struct {
	dir, client, peer string
	web               *web
	process           *os.Process
	ended             chan error
}

// measureEtcd has etcdload do to etcd what was done to Berth. It returns nil
// where the two are not there.
func measureEtcd(ctx context.Context, dir string, small, pod []byte) (map[string]float64, error) {
	for _, tool := range []string{"etcd", "etcdload"} {
		if _, err := exec.LookPath(tool); err != nil {
			say("etcd is left out: %v", err)
			return nil, nil
		}
	}
	e, err := newEtcd(dir)
	if err != nil {
		return nil, err
	}
	for name, data := range map[string][]byte{"small": small, "pod": pod} {
		if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
			return nil, err
		}
	}
	figures := map[string]float64{}
	if _, err := e.start(ctx); err != nil {
		return nil, err
	}
	empty := e.memory()
	err = errors.Join(
		e.load(ctx, figures, "creates,watch", "small", createFor, 0),
		e.load(ctx, figures, "list", "pod", 0, listed),
		e.load(ctx, figures, "fill", "pod", 0, onDisk),
		e.stop())
	if err != nil {
		return figures, err
	}
	say("etcd: a start with %d keys", onDisk)
	took, err := e.start(ctx)
	if err != nil {
		return figures, err
	}
	figures[etcdReady] = took.Seconds()
	time.Sleep(time.Second)
	figures[etcdMemory] = (e.memory() - empty) / onDisk
	return figures, e.stop()
}

func newEtcd(dir string) (*etcd, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	roots, err := certificate(dir)
	if err != nil {
		return nil, err
	}
	e := &etcd{dir: dir}
	for _, address := range []*string{&e.client, &e.peer} {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		*address = l.Addr().String()
		if err := l.Close(); err != nil {
			return nil, err
		}
	}
	e.web = &web{&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, DisableKeepAlives: true,
	}}, "https://" + e.client}
	return e, nil
}

// certificate writes a key and a certificate for loopback, which signs itself.
func certificate(dir string) (*x509.CertPool, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "etcd"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
		KeyUsage:    x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		return nil, err
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	public := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	err = errors.Join(
		os.WriteFile(filepath.Join(dir, "cert.pem"), public, 0o600),
		os.WriteFile(filepath.Join(dir, "key.pem"), pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}), 0o600))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(public)
	return roots, err
}

func (e *etcd) path(name string) string { return filepath.Join(e.dir, name) }

// start runs etcd and returns how long it took until it answered.
func (e *etcd) start(ctx context.Context) (time.Duration, error) {
	began := time.Now()
	started := make(chan error, 1)
	e.ended = make(chan error, 1)
	go e.run(started)
	if err := <-started; err != nil {
		return 0, err
	}
	for {
		_, err := e.web.do(ctx, http.MethodGet, "/health", "", asJSON, nil)
		if err == nil {
			return time.Since(began), nil
		}
		if time.Since(began) > time.Minute {
			return 0, errors.Join(fmt.Errorf("etcd does not answer: %w", err), e.stop())
		}
		select {
		case err := <-e.ended:
			return 0, fmt.Errorf("etcd ended: %w", err)
		case <-ctx.Done():
			return 0, errors.Join(ctx.Err(), e.stop())
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// run is etcd's life. It is killed when the thread that started it ends, so
// that thread waits for it.
func (e *etcd) run(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd := exec.Command("etcd", "--name=bench", "--data-dir="+e.path("data"), "--log-level=fatal", "--quota-backend-bytes=8589934592",
		"--listen-client-urls=https://"+e.client, "--advertise-client-urls=https://"+e.client,
		"--listen-peer-urls=http://"+e.peer, "--initial-advertise-peer-urls=http://"+e.peer, "--initial-cluster=bench=http://"+e.peer,
		"--cert-file="+e.path("cert.pem"), "--key-file="+e.path("key.pem"))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	e.process = cmd.Process
	started <- nil
	e.ended <- cmd.Wait()
}

func (e *etcd) stop() error {
	if err := e.process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-e.ended: // a signal's exit status is no error here
		return nil
	case <-time.After(20 * time.Second):
		return e.process.Kill()
	}
}

// load runs etcdload and takes in what it measured.
func (e *etcd) load(ctx context.Context, figures map[string]float64, what, body string, lasts time.Duration, n int) error {
	say("etcd: %s", what)
	cmd := exec.CommandContext(ctx, "etcdload", "-endpoint", "https://"+e.client, "-ca", e.path("cert.pem"), "-body", e.path(body),
		"-do", what, "-for", lasts.String(), "-n", strconv.Itoa(n), "-clients", strconv.Itoa(apiClients), "-events", strconv.Itoa(watchEvents))
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("etcdload %s: %w", what, err)
	}
	return json.Unmarshal(out, &figures)
}

// memory is what etcd holds beside its files, in KiB.
func (e *etcd) memory() float64 {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", e.process.Pid))
	if err != nil {
		return unknown
	}
	return statusKiB(string(data), "RssAnon:")
}

// statusKiB reads a line of /proc/PID/status.
func statusKiB(status, name string) float64 {
	for line := range strings.Lines(status) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if v, err := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(rest), " kB"), 64); err == nil {
				return v
			}
		}
	}
	return unknown
}
