package main

import (
	"context"
	"fmt"
	"net"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/nodeagent"
)

// ingressFlags say whether and where this machine answers for Ingresses.
type ingressFlags struct {
	on          bool
	http, https int
}

// addIngressFlag is for each command with words of its own: to a host and to an
// agent it means different things.
func addIngressFlag(cmd *cobra.Command, on *bool, usage string) {
	cmd.Flags().BoolVar(on, "ingress", false, usage)
}

func (f *ingressFlags) add(cmd *cobra.Command) {
	cmd.Flags().IntVar(&f.http, "ingress-http-port", 80, "port on which Ingresses are answered over HTTP, with --ingress")
	cmd.Flags().IntVar(&f.https, "ingress-https-port", 443, "port on which Ingresses are answered over TLS, with --ingress")
}

func (f *ingressFlags) parse() error {
	for flag, port := range map[string]int{"--ingress-http-port": f.http, "--ingress-https-port": f.https} {
		if port < 1 || port > 65535 {
			return fmt.Errorf("%s %d: want 1 to 65535", flag, port)
		}
	}
	if f.http == f.https {
		return fmt.Errorf("--ingress-http-port and --ingress-https-port are both %d: want two ports", f.http)
	}
	return nil
}

// listen takes the ports, if Ingresses are to be answered.
func (f *ingressFlags) listen(ctx context.Context) (in nodeagent.Ingress, err error) {
	if !f.on {
		return in, nil
	}
	if in.HTTP, err = listenAt(ctx, "--ingress-http-port", f.http); err != nil {
		return in, err
	}
	if in.HTTPS, err = listenAt(ctx, "--ingress-https-port", f.https); err != nil {
		in.Close()
	}
	return in, err
}

func listenAt(ctx context.Context, flag string, port int) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", ":"+strconv.Itoa(port))
	if err != nil {
		return nil, fmt.Errorf("--ingress: %w: free the port, or give another by %s", err, flag)
	}
	return l, nil
}
