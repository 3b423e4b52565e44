package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

const (
	kubeProxyColumn = "kube-proxy"
	// proxied is how many services kube-proxy is given, as many as the node agent.
	proxied = 30_000
	// proxyNode is where kube-proxy takes itself to be.
	proxyNode = "here"
	// proxiedPort is no other service's.
	proxiedPort = 8080
	// kubeProxyTimeout bounds one start of it.
	kubeProxyTimeout = 5 * time.Minute
	// lookEvery is how often the kernel is asked whether kube-proxy has done it.
	lookEvery = 50 * time.Millisecond
)

// kubeProxyTimes is how long kube-proxy took in nftables mode, from its start until
// the kernel had all services: from nothing, and again with one service more.
type kubeProxyTimes struct{ nothing, again time.Duration }

// besideKubeProxy puts kube-proxy's figures into the rows of services, or a note
// where it cannot be had.
func besideKubeProxy(ctx context.Context, t *table) error {
	for _, needed := range []struct{ program, from string }{
		{"kube-proxy", "`.ci/tools/others.sh kube-proxy` builds it"}, {"nft", "it needs the program nft, which `apt-get install nftables` brings"},
	} {
		if _, err := exec.LookPath(needed.program); err != nil {
			say("kube-proxy is left out: %v", err)
			t.Notes = append(t.Notes, "kube-proxy was not measured: "+needed.from+".")
			return nil
		}
	}
	say("network: kube-proxy, with %d services that are made first", proxied)
	took, err := measureKubeProxy(ctx, proxied)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		t.Notes = append(t.Notes, fmt.Sprintf("kube-proxy was given up %s after its start.", kubeProxyTimeout))
		err = nil
	}
	for i := range t.Rows {
		r, took := &t.Rows[i], map[string]time.Duration{fromNothing: took.nothing, foundAgain: took.again}[t.Rows[i].Name]
		if took > 0 {
			*r = r.with(kubeProxyColumn, took.Seconds(), "s")
		}
	}
	t.Notes = append(t.Notes, "kube-proxy, in nftables mode, is timed from the start of its process, which lists services and endpoints from an API, "+
		"until the kernel has all; Berth's figures begin with the services known.")
	return err
}

// measureKubeProxy has kube-proxy serve n services of an API in a network namespace
// of its own, ends it, and starts it again with one more.
func measureKubeProxy(ctx context.Context, n int) (took kubeProxyTimes, err error) {
	err = onRig(ctx, func(r *rig) error {
		p, err := newKubeProxy(r)
		if err != nil {
			return err
		}
		defer p.space.close()
		// Without its node, it waits half a minute for it.
		node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: proxyNode}, Status: v1.NodeStatus{
			Addresses: []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: "192.0.2.1"}},
		}}
		if _, err := r.client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		if err := r.proxied(ctx, 0, n); err != nil {
			return err
		}
		if took.nothing, err = p.run(ctx, n); err != nil {
			return err
		}
		// The rules stay while it is away. That it has looked at all again shows in
		// the service that came meanwhile: it writes all in one transaction.
		if err := r.proxied(ctx, n, n+1); err != nil {
			return err
		}
		took.again, err = p.run(ctx, n+1)
		return err
	})
	return took, err
}

// proxied makes those services from one number to another, each with three endpoints.
func (r *rig) proxied(ctx context.Context, from, to int) error {
	return each(ctx, 32, to-from, func(ctx context.Context, i int) error {
		i += from
		s := &v1.Service{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("s", i)}, Spec: v1.ServiceSpec{
			ClusterIP: proxiedAddress(i), Ports: []v1.ServicePort{{Port: proxiedPort}},
		}}
		if _, err := r.client.CoreV1().Services(metav1.NamespaceDefault).Create(ctx, s, metav1.CreateOptions{}); err != nil {
			return err
		}
		slice := &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Name: s.Name, Labels: map[string]string{discoveryv1.LabelServiceName: s.Name}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: ptr.To(""), Port: ptr.To[int32](proxiedPort), Protocol: ptr.To(v1.ProtocolTCP)}},
		}
		for j := range 3 {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprintf("10.%d.%d.%d", 128+j, i>>8, i&255)}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(true)},
			})
		}
		_, err := r.client.DiscoveryV1().EndpointSlices(metav1.NamespaceDefault).Create(ctx, slice, metav1.CreateOptions{})
		return err
	})
}

// proxiedAddress leaves the lowest addresses to the cluster's own services.
func proxiedAddress(i int) string { return fmt.Sprintf("10.96.%d.%d", 1+i>>8, i&255) }

// kubeProxy is how the program is run.
type kubeProxy struct {
	space       *netSpace
	config, log string
}

func newKubeProxy(r *rig) (*kubeProxy, error) {
	p := &kubeProxy{log: filepath.Join(r.dir, "kube-proxy.log")}
	var err error
	if p.config, err = configureKubeProxy(r); err != nil {
		return nil, err
	}
	api, err := url.Parse(r.config.Host)
	if err != nil {
		return nil, err
	}
	if p.space, err = newNetSpace(); err != nil {
		return nil, err
	}
	if err := p.space.relay(api.Host); err != nil {
		p.space.close()
		return nil, err
	}
	return p, nil
}

// configureKubeProxy writes what it shall do, and gives the file.
func configureKubeProxy(r *rig) (string, error) {
	kubeconfig, err := filepath.Abs(r.kubeconfig)
	if err != nil {
		return "", err
	}
	// It leaves the machine's settings and its own rank for the out-of-memory
	// killer as they are.
	text := fmt.Sprintf("apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\nmode: nftables\n"+
		"clientConnection: {kubeconfig: %q, qps: 5000, burst: 5000}\nbindAddress: 127.0.0.1\nhostnameOverride: %s\n"+
		"clusterCIDR: 10.128.0.0/14\noomScoreAdj: 0\nhealthzBindAddress: \"127.0.0.1:10256\"\nmetricsBindAddress: \"127.0.0.1:10249\"\n"+
		"conntrack: {maxPerCore: 0, min: 0, tcpEstablishedTimeout: 0s, tcpCloseWaitTimeout: 0s}\n", kubeconfig, proxyNode)
	path := filepath.Join(r.dir, "kube-proxy.yaml")
	return path, os.WriteFile(path, []byte(text), 0o600)
}

// run starts it, waits until the kernel has n services, and ends it.
func (p *kubeProxy) run(ctx context.Context, n int) (took time.Duration, err error) {
	ctx, cancel := context.WithTimeout(ctx, kubeProxyTimeout)
	defer cancel()
	log, err := os.Create(p.log)
	if err != nil {
		return 0, err
	}
	defer log.Close()
	cmd := exec.CommandContext(ctx, "kube-proxy", "--config", p.config)
	cmd.Stdout, cmd.Stderr = log, log
	began := time.Now()
	if err := p.space.do(cmd.Start); err != nil {
		return 0, err
	}
	ended := make(chan error, 1)
	go func() {
		ended <- cmd.Wait()
		cancel()
	}()
	had, err := p.until(ctx, n)
	if err == nil {
		err = cmd.Process.Signal(syscall.SIGTERM)
	}
	if err != nil {
		cancel()
	}
	exit := <-ended
	if err != nil {
		said, _ := os.ReadFile(p.log)
		return 0, fmt.Errorf("kube-proxy: %w (it ended: %w): %s", err, exit, tail(string(said)))
	}
	return had.Sub(began), nil
}

// until returns when the kernel was first seen to have n services.
func (p *kubeProxy) until(ctx context.Context, n int) (time.Time, error) {
	last := proxiedAddress(n - 1)
	for {
		// The newest alone is cheap to ask for; all are counted when it is there.
		// The kernel lets the question wait while it takes in the rules.
		if p.has(ctx, last) {
			at := time.Now()
			if all, err := p.nft(ctx, "list", "map", "ip", "kube-proxy", "service-ips"); err == nil && countProxied(all) >= n {
				return at, nil
			}
		}
		if err := pause(ctx, lookEvery); err != nil {
			return time.Time{}, err
		}
	}
}

// has tells whether the map has a service; without the table it has none.
func (p *kubeProxy) has(ctx context.Context, address string) bool {
	_, err := p.nft(ctx, "get", "element", "ip", "kube-proxy", "service-ips", fmt.Sprintf("{ %s . tcp . %d }", address, proxiedPort))
	return err == nil
}

func (p *kubeProxy) nft(ctx context.Context, args ...string) (string, error) {
	var out []byte
	err := p.space.do(func() (err error) {
		out, err = exec.CommandContext(ctx, "nft", args...).Output()
		return err
	})
	return string(out), err
}

// countProxied counts the elements of a listed map that are such services.
func countProxied(listed string) int {
	return strings.Count(listed, fmt.Sprintf(" . tcp . %d : ", proxiedPort))
}
