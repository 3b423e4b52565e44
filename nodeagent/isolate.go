package nodeagent

import (
	"context"
	"io"

	"github.com/berth-dev/berth/nodeagent/isolation"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/worker"
)

// isolate has network policies hold for the pods that are connected from now on.
func (a *Agent) isolate() {
	if a.cfg.Isolate == nil {
		return
	}
	peers := a.cfg.Peers
	if peers == nil && a.cfg.Client == nil {
		peers = func(ctx context.Context) (io.ReadCloser, error) {
			return a.client.CoreV1().RESTClient().Get().AbsPath(isolation.PeersPath).Stream(ctx)
		}
	}
	a.isolated = isolation.New(isolation.Config{Client: a.client, Peers: peers, Kernel: a.cfg.Isolate, Node: a.cfg.NodeName, Log: a.log})
	a.cfg.Network = a.isolated.Network(a.cfg.Network)
}

// adoptIsolated tells of the pods that a former process connected.
func (a *Agent) adoptIsolated() {
	if a.isolated == nil {
		return
	}
	a.pool.Each(func(r *pod.Record) {
		a.isolated.Adopt(r.Pod, worker.NetworkID(string(r.Pod.UID), r.Sandbox.Attempt), r.Sandbox.IPs)
	})
}
