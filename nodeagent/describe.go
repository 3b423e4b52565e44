package nodeagent

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/node"
)

// maxImages is how many images a Node tells of, the largest first.
const maxImages = 50

// describeWithin bounds how long runtime and network, and images, may take to say
// how they are.
const describeWithin = 10 * time.Second

// describe says what the Node should be now.
func (a *Agent) describe(ctx context.Context) *v1.Node {
	n := &v1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: a.cfg.NodeName, Labels: node.Labels(a.cfg.NodeName, a.cfg.Labels),
		Annotations: map[string]string{"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
	}}
	n.Spec.Taints = a.cfg.Taints
	if a.cfg.PodCIDR != "" {
		n.Spec.PodCIDR, n.Spec.PodCIDRs = a.cfg.PodCIDR, []string{a.cfg.PodCIDR}
	}
	capacity := node.Capacity(a.machine, a.cfg.MaxPods)
	version := ""
	if a.version.Name != "" {
		version = a.version.Name + "://" + a.version.Version
	}
	n.Status = v1.NodeStatus{
		Capacity: capacity, Allocatable: a.allocatable(),
		NodeInfo:   node.Info(version, a.cfg.Version),
		Addresses:  a.addresses(),
		Conditions: slices.Concat(a.pressure.conditions(), []v1.NodeCondition{a.ready(ctx)}, a.serving()),
		Images:     a.images(ctx),
	}
	spaces, recursive := a.version.UserNamespaces, a.version.RecursiveReadOnly
	n.Status.RuntimeHandlers = []v1.NodeRuntimeHandler{{Features: &v1.NodeRuntimeHandlerFeatures{UserNamespaces: &spaces, RecursiveReadOnlyMounts: &recursive}}}
	for _, name := range a.version.Handlers {
		n.Status.RuntimeHandlers = append(n.Status.RuntimeHandlers, v1.NodeRuntimeHandler{Name: name, Features: &v1.NodeRuntimeHandlerFeatures{}})
	}
	n.Status.DaemonEndpoints.KubeletEndpoint.Port = a.port
	return n
}

// addresses are the node's, by which others reach it.
func (a *Agent) addresses() []v1.NodeAddress {
	all := []v1.NodeAddress{{Type: v1.NodeInternalIP, Address: a.address}}
	if a.cfg.Outside != nil {
		if at := a.cfg.Outside(a.address); at != "" && at != a.address {
			all = append(all, v1.NodeAddress{Type: v1.NodeExternalIP, Address: at})
		}
	}
	return append(all, v1.NodeAddress{Type: v1.NodeHostName, Address: a.cfg.NodeName})
}

// ready says whether pods can be started here.
func (a *Agent) ready(ctx context.Context) v1.NodeCondition {
	c := v1.NodeCondition{Type: v1.NodeReady, Status: v1.ConditionTrue, Reason: "KubeletReady", Message: "the agent is ready"}
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	var why []string
	if a.closing.Load() {
		why = append(why, shutdownReady)
	}
	if _, err := a.cfg.Runtime.Version(ctx); err != nil {
		why = append(why, "container runtime is down: "+err.Error())
	}
	if err := a.cfg.Network.Ready(ctx); err != nil {
		why = append(why, "container runtime network not ready: "+err.Error())
	}
	if len(why) > 0 {
		c.Status, c.Reason, c.Message = v1.ConditionFalse, "KubeletNotReady", strings.Join(why, "; ")
	}
	return c
}

func (a *Agent) images(ctx context.Context) []v1.ContainerImage {
	ctx, cancel := context.WithTimeout(ctx, describeWithin)
	defer cancel()
	list, err := a.cfg.Images.List(ctx)
	if err != nil {
		a.log.Warn("list images", "err", err)
		return nil
	}
	slices.SortFunc(list, func(x, y image.Image) int { return cmp.Or(cmp.Compare(y.Size, x.Size), cmp.Compare(x.ID, y.ID)) })
	var out []v1.ContainerImage
	for _, img := range list[:min(len(list), maxImages)] {
		names := slices.Concat(img.Digests, img.Names)
		out = append(out, v1.ContainerImage{Names: names[:min(len(names), 5)], SizeBytes: img.Size})
	}
	return out
}
