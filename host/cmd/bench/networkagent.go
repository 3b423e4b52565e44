package main

import (
	"context"
	"flag"
	"log/slog"
	"net/netip"
	"os"

	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/nodeagent"
	imagefake "github.com/berth-dev/berth/nodeagent/image/fake"
	networkfake "github.com/berth-dev/berth/nodeagent/network/fake"
	"github.com/berth-dev/berth/nodeagent/nft"
	runtimefake "github.com/berth-dev/berth/nodeagent/runtime/fake"
)

// networkProcess is the first argument of a node agent's process.
const networkProcess = "network-agent"

// The network of the node, which the kernel's rules and the agent are told.
const (
	nodeAddress = "192.0.2.1"
	podDevice   = "pods0"
)

var (
	herePods    = netip.MustParsePrefix("10.128.0.0/24")
	clusterPods = netip.MustParsePrefix("10.128.0.0/14")
	clusterDNS  = netip.MustParseAddr("10.96.0.10")
)

// networkAgent is the node agent as it runs on a machine, but for containers: rules
// for services and policies in the kernel, names, the Node and its Lease. It works
// in the network namespace in which it was started, until it is ended.
func networkAgent(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet(networkProcess, flag.ContinueOnError)
	kubeconfig := flags.String("kubeconfig", "", "how the API is reached")
	dir := flags.String("dir", "", "folder of the agent")
	if err := flags.Parse(args); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	kernel, err := nft.Open(nft.Config{Bridge: podDevice, PodRanges: []netip.Prefix{herePods}, ClusterRanges: []netip.Prefix{clusterPods}, Log: log})
	if err != nil {
		return err
	}
	defer kernel.Close()
	agent, err := nodeagent.New(nodeagent.Config{
		REST: config, NodeName: proxyNode, RootDir: *dir, Address: nodeAddress, PodCIDR: herePods.String(), Log: log,
		Runtime: runtimefake.New(), Network: networkfake.New(herePods), Images: imagefake.New(),
		Forward: kernel, Isolate: kernel, AnswerAt: []netip.Addr{clusterDNS}, ClusterRanges: []netip.Prefix{clusterPods},
	})
	if err != nil {
		return err
	}
	return agent.Run(ctx)
}
