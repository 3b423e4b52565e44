package walk_test

import (
	"bytes"
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/remotecommand"
)

// testExecs runs command after command in a container, by WebSocket: each says what it
// has to, on both streams, and ends with its own code.
func (c *cluster) testExecs(t *testing.T) {
	times := 200
	if campaign() {
		times = 10_000
	}
	c.must(t, c.kubectl, "run", "execs", "--image=berth.test/busybox:1", "--", "sleep", "3600")
	c.awaitPod(t, "execs", "is ready", isReady)
	var done atomic.Int64
	began := time.Now()
	all, ctx := errgroup.WithContext(t.Context())
	all.SetLimit(8)
	for n := range times {
		all.Go(func() error {
			url := c.client.CoreV1().RESTClient().Post().Namespace("default").Resource("pods").Name("execs").SubResource("exec").
				VersionedParams(&v1.PodExecOptions{Stdout: true, Stderr: true, Command: []string{"sh", "-c", fmt.Sprintf("echo out %d; echo err %d >&2; exit %d", n, n, n%3)}}, scheme.ParameterCodec).URL()
			way, err := remotecommand.NewWebSocketExecutor(c.rest, "GET", url.String())
			if err != nil {
				return err
			}
			var out, errs bytes.Buffer
			err = way.StreamWithContext(ctx, remotecommand.StreamOptions{Stdout: &out, Stderr: &errs})
			code := 0
			if exit, ok := err.(interface{ ExitStatus() int }); ok {
				err, code = nil, exit.ExitStatus()
			}
			if err != nil || code != n%3 || out.String() != fmt.Sprintf("out %d\n", n) || errs.String() != fmt.Sprintf("err %d\n", n) {
				return fmt.Errorf("exec %d of %d ended with code %d, said %q and %q: %w", n, times, code, out.String(), errs.String(), err)
			}
			done.Add(1)
			return nil
		})
	}
	if err := all.Wait(); err != nil {
		t.Errorf("after %d: %v", done.Load(), err)
	}
	t.Logf("%d execs in %s", done.Load(), time.Since(began).Round(time.Millisecond))
	if err := c.client.CoreV1().Pods("default").Delete(t.Context(), "execs", *metav1.NewDeleteOptions(0)); err != nil {
		t.Error(err)
	}
}
