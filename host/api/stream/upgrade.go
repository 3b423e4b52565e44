package stream

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/proxy"
	translator "k8s.io/apiserver/pkg/util/proxy"
	coreapi "k8s.io/kubernetes/pkg/apis/core/v1"
	"k8s.io/streaming/pkg/httpstream/wsstream"
)

// terminal is what exec and attach have in common.
type terminal struct {
	container                  string
	stdin, stdout, stderr, tty bool
	command                    []string
}

func (s *Streams) exec(w http.ResponseWriter, r *http.Request, t Target) error {
	query, opts := r.URL.Query(), corev1.PodExecOptions{}
	if err := coreapi.Convert_url_Values_To_v1_PodExecOptions(&query, &opts, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if len(opts.Command) == 0 {
		return apierrors.NewBadRequest("you must specify at least one command for the container")
	}
	return s.terminal(w, r, t, terminal{opts.Container, opts.Stdin, opts.Stdout, opts.Stderr, opts.TTY, opts.Command})
}

func (s *Streams) attach(w http.ResponseWriter, r *http.Request, t Target) error {
	query, opts := r.URL.Query(), corev1.PodAttachOptions{}
	if err := coreapi.Convert_url_Values_To_v1_PodAttachOptions(&query, &opts, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	return s.terminal(w, r, t, terminal{opts.Container, opts.Stdin, opts.Stdout, opts.Stderr, opts.TTY, nil})
}

func (s *Streams) terminal(w http.ResponseWriter, r *http.Request, t Target, opts terminal) error {
	if err := s.mayCreate(r.Context(), t); err != nil {
		return err
	}
	if !opts.stdin && !opts.stdout && !opts.stderr {
		return apierrors.NewBadRequest("you must specify at least 1 of stdin, stdout, stderr")
	}
	pod, err := s.placedPod(r.Context(), t)
	if err != nil {
		return err
	}
	container, err := containerOf(pod, opts.container)
	if err != nil {
		return err
	}
	where, err := s.agent(r.Context(), pod.Spec.NodeName)
	if err != nil {
		return err
	}
	where.Path = "/" + t.Subresource + "/" + t.Namespace + "/" + t.Name + "/" + container
	where.RawQuery = opts.query().Encode()
	var handler http.Handler
	if wsstream.IsWebSocketRequestWithStreamCloseProtocol(r) {
		handler = translator.NewStreamTranslatorHandler(where, s.agents, 0, translator.Options{
			Stdin: opts.stdin, Stdout: opts.stdout, Stderr: opts.stderr, Tty: opts.tty,
		})
	}
	s.hand(w, r, where, pod.Spec.NodeName, handler)
	return nil
}

// hand has a stream go on until it or its client ends; through to the agent as
// it is, unless it is translated.
func (s *Streams) hand(w http.ResponseWriter, r *http.Request, where *url.URL, node string, translated http.Handler) {
	ctx, leave := context.WithCancel(r.Context())
	defer leave()
	handler := translated
	if handler == nil {
		handler = s.upgrade(ctx, where, node)
	}
	if wsstream.IsWebSocketRequestWithTunnelingProtocol(r) {
		handler = translator.NewTunnelingHandler(handler)
	}
	handler.ServeHTTP(&leaving{ResponseWriter: w, timeout: s.timeout, ctx: ctx, left: leave}, r.WithContext(ctx))
}

// query is in the kubelet's names.
func (t terminal) query() url.Values {
	query := url.Values{}
	flag := func(name string, set bool) {
		if set {
			query.Set(name, "1")
		}
	}
	flag("input", t.stdin)
	flag("output", t.stdout)
	flag("error", t.stderr)
	flag("tty", t.tty)
	for _, word := range t.command {
		query.Add("command", word)
	}
	return query
}

func (s *Streams) portForward(w http.ResponseWriter, r *http.Request, t Target) error {
	if err := s.mayCreate(r.Context(), t); err != nil {
		return err
	}
	query, opts := r.URL.Query(), corev1.PodPortForwardOptions{}
	if err := coreapi.Convert_url_Values_To_v1_PodPortForwardOptions(&query, &opts, nil); err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	pod, err := s.placedPod(r.Context(), t)
	if err != nil {
		return err
	}
	where, err := s.agent(r.Context(), pod.Spec.NodeName)
	if err != nil {
		return err
	}
	where.Path = "/portForward/" + t.Namespace + "/" + t.Name
	where.RawQuery = portQuery(opts.Ports).Encode()
	s.hand(w, r, where, pod.Spec.NodeName, nil)
	return nil
}

func portQuery(ports []int32) url.Values {
	query := url.Values{}
	if len(ports) == 0 {
		return query
	}
	all := make([]string, len(ports))
	for i, port := range ports {
		all[i] = strconv.Itoa(int(port))
	}
	query.Set("port", strings.Join(all, ","))
	return query
}

// upgrade hands the connection through until ctx ends; a request that asks for
// no upgrade is refused.
func (s *Streams) upgrade(ctx context.Context, where *url.URL, node string) http.Handler {
	agents := &http.Transport{DialContext: s.dialUntil(ctx), TLSClientConfig: s.agents.TLSClientConfig, TLSHandshakeTimeout: s.agents.TLSHandshakeTimeout, DisableKeepAlives: true}
	handler := proxy.NewUpgradeAwareHandler(where, agents, false, true, responder{node})
	handler.UseLocationHost = true
	handler.RejectForwardingRedirects = true
	return handler
}

// dialUntil is dialNode of a connection that ends with ctx: what the proxy
// copies to an agent that does not read, nothing else ends.
func (s *Streams) dialUntil(ctx context.Context) func(context.Context, string, string) (net.Conn, error) {
	return func(dialing context.Context, network, hostport string) (net.Conn, error) {
		conn, err := s.dialNode(dialing, network, hostport)
		if err == nil {
			context.AfterFunc(ctx, func() { _ = conn.Close() })
		}
		return conn, err
	}
}
