package worker

import (
	"context"
	"log/slog"

	v1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/record"

	"github.com/berth-dev/berth/nodeagent/image"
	"github.com/berth-dev/berth/nodeagent/network"
	"github.com/berth-dev/berth/nodeagent/pod"
	"github.com/berth-dev/berth/nodeagent/podspec"
	"github.com/berth-dev/berth/nodeagent/probe"
	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/userns"
)

// Deps are what workers work with.
type Deps struct {
	Runtime runtime.Runtime
	Network network.Network
	Images  image.Store
	Pulls   *image.Pulls
	// Keyring has the machine's own credentials for registries; nil is none.
	Keyring image.Keyring
	Volumes Volumes
	Cgroups Cgroups
	// IDs gives pods with a user namespace their ids.
	IDs IDs
	// UserNamespaces: the runtime can give pods one.
	UserNamespaces bool
	Prober         *probe.Prober
	Objects        podspec.Objects
	// Handler names the runtime that a RuntimeClass stands for.
	Handler func(ctx context.Context, class string) (string, error)
	// Services are the cluster's; nil is none.
	Services Services
	Status   StatusWriter
	Keep     Checkpoints
	Recorder record.EventRecorder
	Log      *slog.Logger

	// RootDir holds pods/UID and logs/NAMESPACE_NAME_UID.
	RootDir string
	// CgroupRoot is prepended to all cgroup paths; empty is the root.
	CgroupRoot string
	// Host describes the machine to statuses.
	Host pod.Host
	// Memory is the machine's, in bytes, PageSizes those of its huge pages;
	// Allocatable is the node's.
	Memory      int64
	PageSizes   []int64
	Allocatable v1.ResourceList
	DNS         podspec.ClusterDNS
	// HostResolv and HostHosts are the machine's own files; "" means /etc/….
	HostResolv, HostHosts string
	// Sysctls that are allowed beyond the safe ones.
	Sysctls []string
	// SeccompRoot holds Localhost profiles.
	SeccompRoot string
	// LogMaxBytes and LogMaxFiles rotate containers' logs.
	LogMaxBytes int64
	LogMaxFiles int
}

// Volumes makes a pod's volumes; package volume has the real one.
type Volumes interface {
	// SetUp makes all volumes of a pod; calling it again repairs.
	SetUp(ctx context.Context, p *v1.Pod, facts podspec.Facts) error
	// Mounts gives a container's volume mounts, subPaths resolved. recursive says
	// whether the runtime can make them read-only recursively.
	Mounts(p *v1.Pod, c *v1.Container, env map[string]string, recursive bool) ([]runtime.Mount, []runtime.Device, error)
	// EnvFile reads a variable from a file of a pod's volume.
	EnvFile(p *v1.Pod, volume, path, key string) (string, error)
	// Refresh brings ConfigMaps, Secrets, tokens and the like up to date.
	Refresh(ctx context.Context, p *v1.Pod, facts podspec.Facts) error
	// TearDown unmounts and removes everything of a pod, by its UID.
	TearDown(uid string) error
}

// Services knows what is sent to pods.
type Services interface {
	// Ports are the TCP ports of a pod to which services send once it is ready.
	Ports(p *v1.Pod) []uint16
	// Withdrawn waits until a pod is no endpoint that goes on, and tells whether it
	// was one.
	Withdrawn(ctx context.Context, p *v1.Pod) bool
}

// Cgroups holds the cgroups above the containers'.
type Cgroups interface {
	Ensure(path string, res runtime.Resources) error
	Remove(path string) error
}

// IDs gives out ranges of ids.
type IDs interface {
	Take(uid string) (userns.Range, error)
	Release(uid string)
}

// StatusWriter tells the API.
type StatusWriter interface {
	// Set reports a status soon; a later one replaces it.
	Set(p *v1.Pod, st v1.PodStatus)
	// Final reports the last status at once and removes the pod from the API.
	Final(ctx context.Context, p *v1.Pod, st v1.PodStatus) error
	// Forget drops what is still waiting to be reported of a pod.
	Forget(uid string)
}

// Checkpoints keeps records over restarts of the agent.
type Checkpoints interface {
	// Save replaces a pod's record, in JSON.
	Save(uid string, record []byte) error
	Remove(uid string) error
}
