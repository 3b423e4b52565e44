package kubescheduler

import (
	"context"
	"fmt"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
	internalcache "k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins"
	"k8s.io/kubernetes/pkg/scheduler/framework/plugins/nodevolumelimits"
	frameworkruntime "k8s.io/kubernetes/pkg/scheduler/framework/runtime"
	"k8s.io/kubernetes/pkg/scheduler/metrics"

	"github.com/berth-dev/berth/host/schedule/oracletest"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// scheduler is kube-scheduler's plugins over the cluster of a case.
type scheduler struct {
	snapshot  *internalcache.Snapshot
	nodes     []fwk.NodeInfo
	nominated []*v1.Pod
	filters   []named
	scores    []named
}

// named is a plugin with its weight, 0 where it does not score.
type named struct {
	name   string
	weight int64
	fwk.Plugin
}

// filterOrder is the order in which kube-scheduler filters by default.
var filterOrder = []string{
	"NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit", "VolumeRestrictions",
	"NodeVolumeLimits", "VolumeBinding", "VolumeZone", "PodTopologySpread", "InterPodAffinity",
}

// open makes the plugins of kube-scheduler's default profile, but for those
// that are left out.
func open(ctx context.Context, c *oracletest.Case) (*scheduler, error) {
	metrics.Register()
	defaults, err := latest.Default()
	if err != nil {
		return nil, err
	}
	s := &scheduler{}
	var placed []*v1.Pod
	for i := range c.Pods {
		pod := &c.Pods[i]
		switch {
		case snapshot.Finished(pod):
		case pod.Spec.NodeName != "":
			placed = append(placed, pod)
		case pod.Status.NominatedNodeName != "":
			s.nominated = append(s.nominated, pod)
		}
	}
	var nodes []*v1.Node
	for i := range c.Nodes {
		nodes = append(nodes, &c.Nodes[i])
	}
	s.snapshot = internalcache.NewSnapshot(known(placed, nodes), nodes)
	if s.nodes, err = s.snapshot.NodeInfos().List(); err != nil {
		return nil, err
	}
	factory, err := objects(c)
	if err != nil {
		return nil, err
	}
	handle, err := frameworkruntime.NewFramework(ctx, nil, nil,
		frameworkruntime.WithSnapshotSharedLister(s.snapshot), frameworkruntime.WithInformerFactory(factory),
		frameworkruntime.WithSharedCSIManager(nodevolumelimits.NewCSIManager(factory.Storage().V1().CSINodes().Lister())))
	if err != nil {
		return nil, err
	}
	return s, s.plugins(ctx, handle, &defaults.Profiles[0])
}

// known are the pods whose node is there: the scheduler's cache keeps others
// under a node without an object, which its snapshot leaves out.
func known(pods []*v1.Pod, nodes []*v1.Node) (list []*v1.Pod) {
	names := map[string]bool{}
	for _, n := range nodes {
		names[n.Name] = true
	}
	for _, p := range pods {
		if names[p.Spec.NodeName] {
			list = append(list, p)
		}
	}
	return list
}

func (s *scheduler) plugins(ctx context.Context, handle fwk.Handle, p *config.KubeSchedulerProfile) error {
	args := map[string]runtime.Object{}
	for _, c := range p.PluginConfig {
		args[c.Name] = c.Args
	}
	weights := map[string]int64{}
	for _, e := range p.Plugins.MultiPoint.Enabled {
		weights[e.Name] = int64(max(e.Weight, 1))
	}
	registry, made := plugins.NewInTreeRegistry(), map[string]fwk.Plugin{}
	build := func(name string) (named, error) {
		if made[name] == nil {
			plugin, err := registry[name](ctx, args[name], handle)
			if err != nil {
				return named{}, fmt.Errorf("plugin %s: %w", name, err)
			}
			made[name] = plugin
		}
		return named{name, weights[name], made[name]}, nil
	}
	for _, name := range filterOrder {
		one, err := build(name)
		if err != nil {
			return err
		}
		s.filters = append(s.filters, one)
	}
	for _, e := range p.Plugins.MultiPoint.Enabled {
		if oracletest.Scores[e.Name] == "" && e.Name != "VolumeBinding" {
			continue
		}
		one, err := build(e.Name)
		if err != nil {
			return err
		}
		s.scores = append(s.scores, one)
	}
	return nil
}

// objects fills the listers; nothing runs behind them.
func objects(c *oracletest.Case) (informers.SharedInformerFactory, error) {
	f := informers.NewSharedInformerFactory(fake.NewSimpleClientset(), 0)
	core, apps, storage := f.Core().V1(), f.Apps().V1(), f.Storage().V1()
	for _, err := range []error{
		fill(core.Namespaces().Informer(), c.Namespaces),
		fill(core.Services().Informer(), c.Services),
		fill(core.ReplicationControllers().Informer(), c.ReplicationControllers),
		fill(apps.ReplicaSets().Informer(), c.ReplicaSets),
		fill(apps.StatefulSets().Informer(), c.StatefulSets),
		fill(core.PersistentVolumeClaims().Informer(), c.Claims),
		fill(core.PersistentVolumes().Informer(), c.Volumes),
		fill(storage.StorageClasses().Informer(), c.Classes),
		fill(storage.CSINodes().Informer(), c.CSINodes),
		fill(storage.CSIDrivers().Informer(), c.CSIDrivers),
		fill(storage.CSIStorageCapacities().Informer(), c.Capacities),
		fill(storage.VolumeAttachments().Informer(), c.Attachments),
		fill(core.Nodes().Informer(), c.Nodes),
	} {
		if err != nil {
			return nil, err
		}
	}
	return f, nil
}

func fill[T any](informer cache.SharedIndexInformer, list []T) error {
	for i := range list {
		if err := informer.GetIndexer().Add(&list[i]); err != nil {
			return err
		}
	}
	return nil
}
