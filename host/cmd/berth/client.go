package main

import (
	"cmp"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apinet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/transport"
	"k8s.io/client-go/util/cert"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/policy/module"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// client talks to a host as its user would: by kubeconfig.
//
// It is large because each command adds beside itself the one question that it
// asks.
type client struct {
	rest      rest.Interface
	namespace string
}

// newClient finds a kubeconfig: the flag, then $KUBECONFIG and ~/.kube/config
// as kubectl does, then the one that `berth up` wrote on this machine. What the host
// warns of is written to warnings.
func newClient(kubeconfig, contextName string, warnings io.Writer) (*client, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = kubeconfig
	local := filepath.Join(defaultDataDir(), "kubeconfig")
	if kubeconfig == "" && os.Getenv("KUBECONFIG") == "" && exists(local) && !exists(clientcmd.RecommendedHomeFile) {
		rules.ExplicitPath = local
	}
	loaded := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, &clientcmd.ConfigOverrides{CurrentContext: contextName})
	cfg, err := loaded.ClientConfig()
	if err != nil {
		if named := os.Getenv("KUBECONFIG"); clientcmd.IsEmptyConfig(err) && kubeconfig == "" && named != "" {
			return nil, fmt.Errorf("$KUBECONFIG is %s, where no cluster is named: start one with `berth up`, which says where its kubeconfig lies", named)
		}
		if clientcmd.IsEmptyConfig(err) {
			return nil, errors.New("no cluster to talk to: start one with `berth up`, or name a kubeconfig by --kubeconfig or $KUBECONFIG")
		}
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	namespace, _, err := loaded.Namespace()
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig: %w", err)
	}
	if err := expired(cfg); err != nil {
		return nil, err
	}
	cfg.NegotiatedSerializer = scheme.Codecs.WithoutConversion()
	cfg.UserAgent = "berth/" + version
	cfg.QPS, cfg.Burst = -1, 0
	cfg.Wrap(counting)
	cfg.Wrap(tellingWarnings(rest.NewWarningWriter(warnings, rest.WarningWriterOptions{Deduplicate: true})))
	c, err := rest.UnversionedRESTClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &client{rest: c, namespace: namespace}, nil
}

// joining is a key of a write's context: the policy joins a profile next, so that
// a warning that none names it is not worth telling.
type joining struct{}

// tellingWarnings tells of each warning in an answer: raw requests drop them.
func tellingWarnings(to rest.WarningHandler) transport.WrapperFunc {
	return func(next http.RoundTripper) http.RoundTripper {
		return roundTripper(func(req *http.Request) (*http.Response, error) {
			answer, err := next.RoundTrip(req)
			if err != nil {
				return answer, err
			}
			headers, _ := apinet.ParseWarningHeaders(answer.Header["Warning"]) // one that is none says nothing
			joins := req.Context().Value(joining{}) != nil
			for _, h := range headers {
				if joins && strings.HasPrefix(h.Text, berthapi.DecidesNothing) {
					continue
				}
				to.HandleWarningHeader(h.Code, h.Agent, h.Text)
			}
			return answer, nil
		})
	}
}

// expired says so of a client certificate, upon which a host just hangs up.
func expired(cfg *rest.Config) error {
	data := cfg.CertData
	if len(data) == 0 && cfg.CertFile != "" {
		data, _ = os.ReadFile(cfg.CertFile) // who cannot read it learns that from the transport
	}
	certs, err := cert.ParseCertsPEM(data)
	if err != nil || time.Now().Before(certs[0].NotAfter) {
		return nil
	}
	return fmt.Errorf("the certificate of this kubeconfig has expired on %s: take a new kubeconfig, or name another by --kubeconfig or $KUBECONFIG", certs[0].NotAfter.UTC().Format(time.DateOnly))
}

// in is a namespace, that of the kubeconfig where it is not given.
func (c *client) in(namespace string) string { return cmp.Or(namespace, c.namespace) }

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

const policyAPI = "/apis/policy.berth.dev/v1alpha1/"

// get decodes the JSON at path into out.
func (c *client) get(ctx context.Context, path string, out any) error {
	data, err := c.rest.Get().RequestURI(path).SetHeader("Accept", "application/json").DoRaw(ctx)
	if err != nil {
		return explainStatus(data, err)
	}
	return json.Unmarshal(data, out)
}

// raw is the body at path.
func (c *client) raw(ctx context.Context, path string) ([]byte, error) {
	data, err := c.rest.Get().RequestURI(path).DoRaw(ctx)
	if err != nil {
		return nil, explainStatus(data, err)
	}
	return data, nil
}

// send writes in to path by verb and decodes the answer into out.
func (c *client) send(ctx context.Context, verb, path, contentType string, in []byte, out any) error {
	data, err := c.rest.Verb(verb).RequestURI(path).
		SetHeader("Content-Type", contentType).SetHeader("Accept", "application/json").
		Body(in).DoRaw(ctx)
	if err != nil {
		return explainStatus(data, err)
	}
	if out == nil {
		return nil
	}
	return json.Unmarshal(data, out)
}

// explainStatus prefers the message of a Kubernetes Status, or the plain text of
// an answer, over a bare code.
func explainStatus(body []byte, err error) error {
	if out := new(url.Error); errors.As(err, &out) {
		return unreachable(out)
	}
	if apierrors.IsUnauthorized(err) {
		return &serverError{message: "the host does not know who you are: the certificate or token of this kubeconfig is wrong or has expired; name another by --kubeconfig or $KUBECONFIG", cause: err}
	}
	var status struct{ Kind, Message string }
	if json.Unmarshal(body, &status) == nil && status.Kind == "Status" && status.Message != "" {
		return &serverError{message: status.Message, cause: err}
	}
	if text := strings.TrimSpace(string(body)); text != "" && len(text) < 1024 && !strings.ContainsAny(text[:1], "{<") {
		return &serverError{message: text, cause: err}
	}
	return err
}

// unreachable says where no host answers, and what to do about it.
func unreachable(err *url.Error) error {
	at := err.URL
	if u, bad := url.Parse(err.URL); bad == nil {
		at = u.Scheme + "://" + u.Host
	}
	var dial *net.OpError
	if errors.As(err, &dial) && dial.Op == "dial" {
		return fmt.Errorf("no host answers at %s (%s): start one by `berth up`, or name another cluster by --kubeconfig or $KUBECONFIG",
			at, strings.TrimPrefix(dial.Err.Error(), "connect: "))
	}
	if untrusted := new(tls.CertificateVerificationError); errors.As(err, &untrusted) {
		return fmt.Errorf("the host at %s is not the one that this kubeconfig trusts (%w): take the kubeconfig of that cluster", at, untrusted.Err)
	}
	if dial != nil && dial.Op == "remote error" {
		return fmt.Errorf("the host at %s refuses this kubeconfig's certificate (%w): name another by --kubeconfig or $KUBECONFIG", at, dial.Err)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, syscall.EPIPE) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.ECONNRESET) {
		return fmt.Errorf("the host at %s broke off in the midst of an answer (%w): it may have ended; try again once it is up", at, err.Err)
	}
	return fmt.Errorf("ask the host at %s: %w", at, err.Err)
}

// serverError is what the host answered, in its own words.
type serverError struct {
	message string
	cause   error
}

func (e *serverError) Error() string { return e.message }
func (e *serverError) Unwrap() error { return e.cause }

// upload sends a module and returns what the host made of it; in a dry run the
// host examines it and keeps nothing.
func (c *client) upload(ctx context.Context, wasm []byte, signatures []v1alpha1.Signature, dryRun bool) (*v1alpha1.Module, error) {
	req := c.rest.Post().RequestURI(policyAPI+"modules").
		SetHeader("Content-Type", "application/wasm").SetHeader("Accept", "application/json")
	if dryRun {
		req = req.Param("dryRun", "All")
	}
	if len(signatures) > 0 {
		var lines []string
		for _, s := range signatures {
			lines = append(lines, module.FormatSignature(s))
		}
		req = req.SetHeader("Berth-Signature", lines...)
	}
	body, err := req.Body(wasm).DoRaw(ctx)
	if err != nil {
		return nil, explainStatus(body, err)
	}
	module := new(v1alpha1.Module)
	return module, json.Unmarshal(body, module)
}
