package probe

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Client is the HTTP client of probes and hooks: certificates are not checked,
// connections not kept, redirects to other hosts not followed.
var Client = &http.Client{
	Transport: &http.Transport{
		TLSClientConfig:    &tls.Config{InsecureSkipVerify: true}, // a pod's own certificate, as Kubernetes has it
		DisableKeepAlives:  true,
		DisableCompression: true,
		DialContext:        probe.ProbeDialer().DialContext,
	},
	CheckRedirect: httpprobe.RedirectChecker(false),
}

// Port resolves a port by number or by its name in the container.
func Port(p intstr.IntOrString, c *v1.Container) (int, error) {
	n, err := probe.ResolveContainerPort(p, c)
	if err != nil {
		return 0, fmt.Errorf("container %s has no port %q", c.Name, p.String())
	}
	return n, nil
}

// Request makes the request of an HTTP probe or hook to a pod at ip.
func Request(ctx context.Context, get *v1.HTTPGetAction, c *v1.Container, ip, agent string) (*http.Request, error) {
	if _, err := Port(get.Port, c); err != nil {
		return nil, err
	}
	req, err := httpprobe.NewRequestForHTTPGetAction(get, c, ip, "")
	if err != nil {
		return nil, err
	}
	if !slices.ContainsFunc(get.HTTPHeaders, func(h v1.HTTPHeader) bool { return http.CanonicalHeaderKey(h.Name) == "User-Agent" }) {
		req.Header.Set("User-Agent", agent)
	}
	return req.WithContext(ctx), nil
}

// Execer runs a command in a container.
type Execer interface {
	Exec(ctx context.Context, id string, cfg runtime.ExecConfig) (int32, error)
}

// ask probes once; ctx ends by the probe's timeout.
func ask(ctx context.Context, run Execer, t Target, spec *v1.Probe) Answer {
	switch {
	case spec.Exec != nil:
		return askExec(ctx, run, t.ID, podspec.ExpandStatic(spec.Exec.Command, t.Container.Env))
	case spec.HTTPGet != nil:
		return askHTTP(ctx, t, spec.HTTPGet)
	case spec.TCPSocket != nil:
		return askTCP(ctx, t, spec.TCPSocket)
	case spec.GRPC != nil:
		return askGRPC(ctx, t, spec.GRPC)
	}
	return Answer{Output: "missing probe handler"}
}

func askExec(ctx context.Context, run Execer, id string, command []string) Answer {
	var out Output
	code, err := run.Exec(ctx, id, runtime.ExecConfig{Args: command, IO: runtime.IO{Stdout: &out, Stderr: &out}})
	if errors.Is(err, context.DeadlineExceeded) {
		return Answer{Output: fmt.Sprintf("command timed out: %q", strings.Join(command, " "))}
	}
	if err != nil {
		return Answer{Err: err}
	}
	return Answer{OK: code == 0, Output: out.String()}
}

func askHTTP(ctx context.Context, t Target, get *v1.HTTPGetAction) Answer {
	req, err := Request(ctx, get, t.Container, t.IP, "kube-probe/1.36")
	if err != nil {
		return Answer{Err: err}
	}
	result, output, err := httpprobe.DoHTTPProbe(req, Client)
	if err != nil {
		return Answer{Output: err.Error()}
	}
	return Answer{OK: result == probe.Success || result == probe.Warning, Output: output}
}

func askTCP(ctx context.Context, t Target, tcp *v1.TCPSocketAction) Answer {
	port, err := Port(tcp.Port, t.Container)
	if err != nil {
		return Answer{Err: err}
	}
	host := tcp.Host
	if host == "" {
		host = t.IP
	}
	conn, err := probe.ProbeDialer().DialContext(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return Answer{Output: err.Error()}
	}
	conn.Close()
	return Answer{OK: true}
}

func askGRPC(ctx context.Context, t Target, g *v1.GRPCAction) Answer {
	conn, err := grpc.NewClient(net.JoinHostPort(t.IP, strconv.Itoa(int(g.Port))),
		grpc.WithTransportCredentials(insecure.NewCredentials()), grpc.WithUserAgent("kube-probe/1.36"),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			return probe.ProbeDialer().DialContext(ctx, "tcp", address)
		}))
	if err != nil {
		return Answer{Output: err.Error()}
	}
	defer conn.Close()
	service := ""
	if g.Service != nil {
		service = *g.Service
	}
	resp, err := healthpb.NewHealthClient(conn).Check(ctx, &healthpb.HealthCheckRequest{Service: service}, grpc.WaitForReady(true))
	if err != nil {
		return Answer{Output: fmt.Sprintf("service %q: %v", service, err)}
	}
	if resp.Status != healthpb.HealthCheckResponse_SERVING {
		return Answer{Output: fmt.Sprintf("service unhealthy (responded with %q)", resp.Status)}
	}
	return Answer{OK: true}
}

// minWait keeps a probe with an odd period from spinning.
const minWait = 10 * time.Millisecond
