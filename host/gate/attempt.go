package gate

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/wire"
)

// agent is how the host names itself to endpoints; a gate may say otherwise.
const agent = "berth-gate/1"

// attempt looks at the pod over the network.
func (o *Observer) attempt(ctx context.Context, pod *v1.Pod, w *abi.Observe, out *wire.Observation) {
	address, err := o.address(pod, w.Port)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	ctx, cancel := context.WithTimeout(ctx, timeout(w))
	defer cancel()
	ctx = context.WithValue(ctx, deadline{}, ctx)
	if w.Kind == abi.ObserveTCP {
		o.connect(ctx, address, out)
		return
	}
	o.get(ctx, address, w, out)
}

// address is where the pod listens.
func (o *Observer) address(pod *v1.Pod, port abi.Port) (string, error) {
	ip := pod.Status.PodIP
	if ip == "" {
		return "", fmt.Errorf("the pod has no address yet")
	}
	if !o.special && !ofPod(ip) {
		return "", fmt.Errorf("%q is no address of a pod", ip)
	}
	n, err := portOf(&pod.Spec, port)
	return net.JoinHostPort(ip, strconv.Itoa(n)), err
}

// ofPod says whether a pod can have the address. Those of this machine itself
// and of its link are kept out: whoever writes a pod's status could have the
// host ask what only the host can reach.
func ofPod(text string) bool {
	address, err := netip.ParseAddr(text)
	address = address.Unmap()
	return err == nil && address.Zone() == "" && !address.IsUnspecified() && !address.IsLoopback() &&
		!address.IsLinkLocalUnicast() && !address.IsMulticast()
}

// portOf finds a port by number, or by its name as a Service finds it: in the
// containers, then in the sidecars among the init containers; the first has it.
func portOf(spec *v1.PodSpec, port abi.Port) (int, error) {
	if n, ok := port.Number(); ok {
		return n, nil
	}
	for i := range spec.Containers {
		if n, ok := named(&spec.Containers[i], port); ok {
			return n, nil
		}
	}
	for i := range spec.InitContainers {
		c := &spec.InitContainers[i]
		if c.RestartPolicy == nil || *c.RestartPolicy != v1.ContainerRestartPolicyAlways {
			continue
		}
		if n, ok := named(c, port); ok {
			return n, nil
		}
	}
	return 0, fmt.Errorf("no container of the pod has a TCP port of the name %q", string(port))
}

func named(c *v1.Container, port abi.Port) (int, bool) {
	for i := range c.Ports {
		p := &c.Ports[i]
		if p.Name == string(port) && (p.Protocol == v1.ProtocolTCP || p.Protocol == "") {
			return int(p.ContainerPort), true
		}
	}
	return 0, false
}

// deadline is the key by which an attempt's context reaches its dial: net/http
// lets go of a request that is over and not of what it began for it, which with
// an endpoint that never shakes hands lasts for ever.
type deadline struct{}

// dial connects for an attempt, and gives the connection no more time than that
// has.
func dial(ctx context.Context, network, address string) (net.Conn, error) {
	if attempt, ok := ctx.Value(deadline{}).(context.Context); ok {
		ctx = attempt
	}
	var dialer net.Dialer
	connection, err := dialer.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	if until, ok := ctx.Deadline(); ok {
		err = connection.SetDeadline(until)
	}
	if err != nil {
		_ = connection.Close()
		return nil, err
	}
	return connection, nil
}

func (o *Observer) connect(ctx context.Context, address string, out *wire.Observation) {
	connection, err := dial(ctx, "tcp", address)
	if err != nil {
		out.Detail = why(ctx, err)
		return
	}
	_ = connection.Close()
	out.OK = true
}

func (o *Observer) get(ctx context.Context, address string, w *abi.Observe, out *wire.Observation) {
	r, err := request(ctx, address, w)
	if err != nil {
		out.Detail = err.Error()
		return
	}
	answer, err := o.client.Do(r)
	if err != nil {
		out.Detail = why(ctx, err)
		return
	}
	defer answer.Body.Close()
	out.Code, out.Detail = int32(answer.StatusCode), answer.Status
	out.OK = answer.StatusCode >= 200 && answer.StatusCode < 400
}

// why says what an attempt failed of, in the same words each time: the port at
// this end, and which of two clocks ran out first, are left out.
func why(ctx context.Context, err error) string {
	if ctx.Err() != nil || os.IsTimeout(err) {
		return "no answer in time"
	}
	var op *net.OpError
	if errors.As(err, &op) {
		return (&net.OpError{Op: op.Op, Net: op.Net, Addr: op.Addr, Err: op.Err}).Error()
	}
	return err.Error()
}

// request asks as a kubelet's probe asks. Whatever the path says, it goes to
// the address, and what follows a # stays here.
func request(ctx context.Context, address string, w *abi.Observe) (*http.Request, error) {
	scheme := "http"
	if w.Scheme == abi.SchemeHTTPS {
		scheme = "https"
	}
	path, _, _ := strings.Cut(w.Path, "#")
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, scheme+"://"+address+"/"+strings.TrimPrefix(path, "/"), nil)
	if err != nil {
		return nil, err
	}
	for i := range w.Headers {
		h := &w.Headers[i]
		if strings.EqualFold(h.Name, "Host") {
			r.Host = h.Value
			continue
		}
		r.Header.Add(h.Name, h.Value)
	}
	defaults(r.Header, "User-Agent", agent)
	defaults(r.Header, "Accept", "*/*")
	return r, nil
}

// defaults sets a header that was not given; one that was given empty is left
// out.
func defaults(h http.Header, name, value string) {
	switch have, ok := h[name]; {
	case !ok:
		h.Set(name, value)
	case len(have) == 1 && have[0] == "" && name == "Accept":
		h.Del(name)
	}
}
