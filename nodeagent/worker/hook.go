package worker

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/runtime"
)

// hook runs a lifecycle handler of a running container.
func (w *worker) hook(ctx context.Context, r *pod.Record, c pod.Spec, id string, h *v1.LifecycleHandler) error {
	switch {
	case h.Exec != nil:
		var out probe.Output
		code, err := w.Runtime.Exec(ctx, id, runtime.ExecConfig{Args: h.Exec.Command, IO: runtime.IO{Stdout: &out, Stderr: &out}})
		if err != nil {
			return err
		}
		if code != 0 {
			return fmt.Errorf("command %q exited with %d: %s", strings.Join(h.Exec.Command, " "), code, out.String())
		}
		return nil
	case h.HTTPGet != nil:
		return w.hookHTTP(ctx, r, c, h.HTTPGet)
	case h.Sleep != nil:
		timer := time.NewTimer(time.Duration(h.Sleep.Seconds) * time.Second)
		defer timer.Stop()
		select {
		case <-timer.C:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		}
	case h.TCPSocket != nil:
		port, err := probe.Port(h.TCPSocket.Port, c.Container)
		if err != nil {
			return err
		}
		var d net.Dialer
		conn, err := d.DialContext(ctx, "tcp", net.JoinHostPort(orElse(h.TCPSocket.Host, w.address(r)), fmt.Sprint(port)))
		if err != nil {
			return err
		}
		return conn.Close()
	}
	return fmt.Errorf("the hook has no known handler")
}

// address is where the pod is reached from its node.
func (w *worker) address(r *pod.Record) string {
	if ips := w.facts(r).PodIPs; len(ips) > 0 {
		return ips[0]
	}
	return "127.0.0.1"
}

func (w *worker) hookHTTP(ctx context.Context, r *pod.Record, c pod.Spec, get *v1.HTTPGetAction) error {
	req, err := probe.Request(ctx, get, c.Container, w.address(r), "berth-lifecycle/1")
	if err != nil {
		return err
	}
	resp, err := probe.Client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 10<<10))
	if resp.StatusCode >= http.StatusBadRequest {
		return fmt.Errorf("GET %s answered %s", req.URL, resp.Status)
	}
	return nil
}
