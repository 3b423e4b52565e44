package nodeagent

import (
	"context"
	"net/netip"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/berth-dev/berth/nodeagent/dns"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
)

// answerNames opens the DNS server, from whose addresses pods ask from then on.
// A machine where they cannot be had goes on without: names of the cluster do not
// resolve there, all others do.
func (a *Agent) answerNames() error {
	if len(a.cfg.AnswerAt) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	server, err := dns.Listen(ctx, dns.Config{
		Domain: a.cfg.DNS.Domain, Addresses: a.cfg.AnswerAt, Ranges: a.cfg.ClusterRanges, Pod: a.searcher, Synced: a.catalog.Synced, Log: a.log,
	})
	if err != nil {
		a.log.Error("no cluster DNS on this machine: its pods are given the machine's resolvers; free the address, or name other servers by --cluster-dns", "err", err)
		return nil
	}
	a.names, a.cfg.AnswerAt = server, server.Addresses()
	a.cfg.DNS.Servers = nil
	for _, at := range a.cfg.AnswerAt {
		a.cfg.DNS.Servers = append(a.cfg.DNS.Servers, at.String())
	}
	return a.feedNames()
}

// feedNames has the server's index follow the catalog.
func (a *Agent) feedNames() error {
	_, err := a.catalog.Services().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(obj any) { a.names.SetService(obj.(*v1.Service)) },
		UpdateFunc: func(_, obj any) { a.names.SetService(obj.(*v1.Service)) },
		DeleteFunc: func(obj any) {
			if s, ok := last(obj).(*v1.Service); ok {
				a.names.DeleteService(s.Namespace, s.Name)
			}
		},
	})
	if err != nil {
		return err
	}
	_, err = a.catalog.Slices().Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(obj any) { a.names.SetSlice(obj.(*discoveryv1.EndpointSlice)) },
		UpdateFunc: func(old, obj any) {
			was, s := old.(*discoveryv1.EndpointSlice), obj.(*discoveryv1.EndpointSlice)
			if was.Labels[discoveryv1.LabelServiceName] != s.Labels[discoveryv1.LabelServiceName] {
				a.names.DeleteSlice(was)
			}
			a.names.SetSlice(s)
		},
		DeleteFunc: func(obj any) {
			if s, ok := last(obj).(*discoveryv1.EndpointSlice); ok {
				a.names.DeleteSlice(s)
			}
		},
	})
	return err
}

// last is what was known of an object when it went.
func last(obj any) any {
	if tomb, ok := obj.(cache.DeletedFinalStateUnknown); ok {
		return tomb.Obj
	}
	return obj
}

// searcher finds the pod of this machine that has an address, if it looks names
// up as the cluster's pods do.
func (a *Agent) searcher(address netip.Addr) (namespace string, ok bool) {
	a.pool.Each(func(r *pod.Record) {
		if slices.Contains(r.Sandbox.IPs, address) && !r.Pod.Spec.HostNetwork && podspec.SearchesCluster(r.Pod) {
			namespace, ok = r.Pod.Namespace, true
		}
	})
	return namespace, ok
}

func (a *Agent) metrics() []prometheus.Collector {
	var out []prometheus.Collector
	if a.names != nil {
		out = append(out, a.names)
	}
	if a.proxy != nil {
		out = append(out, a.proxy)
	}
	if a.isolated != nil {
		out = append(out, a.isolated)
	}
	if a.ingress != nil {
		out = append(out, a.ingress)
	}
	return out
}
