package runtime

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/berth-dev/berth/nodeagent/userns"
)

// Fixed kinds of failure; wrap them, branch by errors.Is.
var (
	// ErrNotFound: no such sandbox, container or image.
	ErrNotFound = errors.New("not found")
	// ErrNotRunning: the call needs a running container.
	ErrNotRunning = errors.New("not running")
	// ErrStart: the container was made, but its process could not be started
	// (no such executable, wrong user). Reported as reason StartError.
	ErrStart = errors.New("start")
)

// Runtime runs containers. The parts are separate so that callers can ask for
// no more than they use.
type Runtime interface {
	Sandboxes
	Containers
	Streams
	Observer
}

// Sandboxes are the namespaces that a pod's containers share.
type Sandboxes interface {
	// RunSandbox makes the namespaces and starts the pause process in them.
	RunSandbox(ctx context.Context, cfg SandboxConfig) (id string, err error)
	// StopSandbox kills every container in it, then the pause process. The
	// records stay listed, as exited, until they are removed.
	StopSandbox(ctx context.Context, id string) error
	// RemoveSandbox removes a sandbox and its containers, running or not.
	RemoveSandbox(ctx context.Context, id string) error
}

// Containers are what a pod's spec names.
type Containers interface {
	// CreateContainer prepares a container from an image that is present.
	CreateContainer(ctx context.Context, sandboxID string, cfg ContainerConfig) (id string, err error)
	// StartContainer starts it once. An error of kind ErrStart leaves it
	// exited with code 128 (127 where the executable is missing, if known).
	StartContainer(ctx context.Context, id string) error
	// StopContainer sends the stop signal, waits up to grace, then kills; with
	// grace 0 it kills at once. It returns when the process has ended. A
	// context that ends early leaves the container as it is then.
	StopContainer(ctx context.Context, id string, grace time.Duration) error
	// RemoveContainer removes it, killing it first if it runs. Its log file stays.
	RemoveContainer(ctx context.Context, id string) error
	// UpdateContainer changes the limits of a container that may be running.
	UpdateContainer(ctx context.Context, id string, res Resources) error
}

// Streams reach into running containers.
type Streams interface {
	// Exec runs a command beside the container's process and waits for it.
	// The context's end kills the command. The error is nil whatever the exit
	// code is.
	Exec(ctx context.Context, id string, cfg ExecConfig) (exitCode int32, err error)
	// Attach joins the container's own standard streams till it ends, stdin
	// ends for a container without output wanted, or the context ends.
	Attach(ctx context.Context, id string, io IO) error
	// PortForward copies between stream and 127.0.0.1:port in the sandbox's
	// network namespace, until either side closes.
	PortForward(ctx context.Context, sandboxID string, port int32, stream io.ReadWriteCloser) error
}

// Observer shows what there is.
type Observer interface {
	// List gives everything that this agent's runtime holds, in no order.
	List(ctx context.Context) (Listing, error)
	// Events tells what changed, from the call on, until ctx ends; then the
	// channel is closed. Events may be dropped when the reader is slow, and
	// the channel may close early: readers also List from time to time.
	Events(ctx context.Context) (<-chan Event, error)
	// Stats measures all running containers, pause processes excluded.
	Stats(ctx context.Context) ([]Stats, error)
	// Written measures what containers, by their ids, wrote to layers of their
	// own, running or not. It costs a walk over all those files: ask for few.
	// Those that are not there are left out.
	Written(ctx context.Context, ids []string) (map[string]Disk, error)
	// User says who a container's first process started as.
	User(ctx context.Context, id string) (User, error)
	// Version names the runtime, and fails while it can not be used.
	Version(ctx context.Context) (Version, error)
}

// Version names a runtime, as in node.status.nodeInfo: "containerd://2.4.2".
type Version struct {
	Name    string
	Version string
	// UserNamespaces: sandboxes may have IDs of their own.
	UserNamespaces bool
	// RecursiveReadOnly: mounts may be so.
	RecursiveReadOnly bool
	// Handlers are the other runtimes that a sandbox may have, sorted.
	Handlers []string
	// AppArmor: the machine confines containers by it.
	AppArmor bool
}

// PodMeta says to which pod a sandbox or container belongs.
type PodMeta struct {
	Namespace string
	Name      string
	UID       string
}

// State of a sandbox or container.
type State string

// The states, in the order in which they are passed through.
const (
	Created State = "created"
	Running State = "running"
	Exited  State = "exited"
	// Unknown: the runtime lost track; treated as exited with code 255.
	Unknown State = "unknown"
)

// SandboxConfig is what RunSandbox needs.
type SandboxConfig struct {
	Pod PodMeta
	// Attempt counts the sandboxes of this pod, from 0.
	Attempt uint32
	// Hostname is set in the UTS namespace; empty with the host's network.
	Hostname string
	// NetNS is the path of a network namespace that exists already, made by
	// package network; empty means the host's.
	NetNS string
	// HostPID, HostIPC use the host's namespaces; ShareProcesses lets all
	// containers use the sandbox's pid namespace.
	HostPID, HostIPC, ShareProcesses bool
	// IDs, unless they are the machine's own, put the sandbox and its containers
	// into the user namespace that owns NetNS, whose ids these are. Mounts show
	// files as if the ids in the pod were those on the disk.
	IDs userns.Range
	// CgroupParent is an absolute cgroup path without the mount point, such as
	// /kubepods/burstable/pod8f2e…; the pause process and all containers are
	// put below it.
	CgroupParent string
	// Sysctls are namespaced kernel parameters by dotted name.
	Sysctls map[string]string
	// Seccomp of the pause process.
	Seccomp Seccomp
	// Handler names another runtime (RuntimeClass); empty: the default.
	Handler     string
	Labels      map[string]string
	Annotations map[string]string
}

// ContainerConfig is what CreateContainer needs. The image's configuration has
// been merged in by the agent already, save for user names, which only the
// root filesystem can resolve.
type ContainerConfig struct {
	Name string
	// Attempt is the restart count with which it runs; List gives it back.
	Attempt uint32
	// Image is the id that package image gave: present, and unpacked by need.
	Image string
	// Args is the whole command line.
	Args    []string
	Env     []EnvVar
	WorkDir string
	// Mounts replace the runtime's defaults of the same ContainerPath
	// (/dev/shm, /etc/resolv.conf …) and are sorted, parents first.
	Mounts  []Mount
	Devices []Device
	// Stdin keeps standard input open for Attach; StdinOnce closes it when the
	// first attached client leaves. TTY gives it a terminal.
	Stdin, StdinOnce, TTY bool
	// LogPath is the file for its output, in CRI format; its folder exists.
	// LogMaxBytes and LogMaxFiles ask for rotation: the newest is LogPath, the
	// older ones LogPath.1, LogPath.2 …; 0 never rotates.
	LogPath     string
	LogMaxBytes int64
	LogMaxFiles int
	// StopSignal such as "SIGTERM"; empty is SIGTERM.
	StopSignal string
	Resources  Resources
	Security   Security
	// TargetID shares the pid namespace of another container of the sandbox
	// (kubectl debug --target).
	TargetID    string
	Labels      map[string]string
	Annotations map[string]string
}

// EnvVar is one variable of the environment; the last of a name counts.
type EnvVar struct{ Name, Value string }

// Mount binds a path of the machine, or the files of an image, into a
// container.
type Mount struct {
	HostPath string
	// Image is mounted instead of HostPath: the id of one that is present. It
	// must be ReadOnly; SubPath is a folder in it, empty for all of it.
	Image, SubPath string
	ContainerPath  string
	ReadOnly       bool
	// RecursiveReadOnly makes what is mounted below HostPath read-only too; it
	// needs ReadOnly, and no propagation.
	RecursiveReadOnly bool
	// Propagation is "private", "rslave" or "rshared"; empty is private.
	Propagation string
}

// Device lets a container use a device of the machine; Permissions is a subset
// of "rwm".
type Device struct {
	HostPath      string
	ContainerPath string
	Permissions   string
}

// Resources are a container's limits; zero fields set nothing.
type Resources struct {
	// CPUShares is 2…262144 as in cgroup v1; implementations translate to v2.
	CPUShares int64
	// CPUQuota in µs per CPUPeriod.
	CPUQuota, CPUPeriod int64
	MemoryLimit         int64
	// PidsLimit bounds processes.
	PidsLimit int64
	// OOMScoreAdj is clamped to what the machine permits.
	OOMScoreAdj int
	// Hugepages by size in the kernel's words: "2MB" → bytes.
	Hugepages map[string]int64
}

// Security is a container's security context, pod and container merged.
type Security struct {
	// User: a uid, or RunAsUser nil and Username from the image ("nobody",
	// "1000:1000", "app:staff"), resolved in the container's /etc/passwd.
	RunAsUser, RunAsGroup *int64
	Username              string
	// SupplementalGroups include fsGroup. Groups of the user in the image's
	// /etc/group are added unless StrictGroups.
	SupplementalGroups []int64
	StrictGroups       bool
	Privileged         bool
	// AddCapabilities and DropCapabilities have no CAP_ prefix; "ALL" is all.
	AddCapabilities, DropCapabilities []string
	ReadOnlyRootFS                    bool
	NoNewPrivileges                   bool
	Seccomp                           Seccomp
	AppArmor                          AppArmor
	// Unmasked leaves /proc as it is (procMount: Unmasked).
	Unmasked bool
}

// SeccompType says which filter applies.
type SeccompType string

// The seccomp types; the empty one is Unconfined.
const (
	SeccompUnconfined     SeccompType = "Unconfined"
	SeccompRuntimeDefault SeccompType = "RuntimeDefault"
	SeccompLocalhost      SeccompType = "Localhost"
)

// Seccomp is a filter; Path is the profile's file where Type is Localhost.
type Seccomp struct {
	Type SeccompType
	Path string
}

// AppArmorType says which profile confines a container.
type AppArmorType string

// The AppArmor types; the empty one is RuntimeDefault where the kernel has
// AppArmor, and nothing elsewhere.
const (
	AppArmorUnconfined     AppArmorType = "Unconfined"
	AppArmorRuntimeDefault AppArmorType = "RuntimeDefault"
	AppArmorLocalhost      AppArmorType = "Localhost"
)

// AppArmor is a profile; Profile is the name of one that the kernel has loaded,
// where Type is Localhost.
type AppArmor struct {
	Type    AppArmorType
	Profile string
}

// IO are the streams of an exec or attach; nil ones are not connected.
type IO struct {
	Stdin          io.Reader
	Stdout, Stderr io.Writer
	// TTY merges the outputs to Stdout; Resize tells new sizes.
	TTY    bool
	Resize <-chan TerminalSize
}

// TerminalSize in characters.
type TerminalSize struct{ Width, Height uint16 }

// ExecConfig is a command to run in a container, with its user, environment
// and working directory.
type ExecConfig struct {
	Args []string
	IO   IO
}

// Listing is all that a runtime holds.
type Listing struct {
	Sandboxes  []Sandbox
	Containers []Container
}

// Sandbox as List shows it: State is Running or Exited.
type Sandbox struct {
	ID          string
	Pod         PodMeta
	Attempt     uint32
	State       State
	CreatedAt   time.Time
	NetNS       string
	PID         int
	Labels      map[string]string
	Annotations map[string]string
}

// Container as List shows it.
type Container struct {
	ID        string
	SandboxID string
	Pod       PodMeta
	Name      string
	Attempt   uint32
	// Image is what ContainerConfig had, MountedImages those of its mounts.
	Image         string
	MountedImages []string
	State         State
	CreatedAt     time.Time
	StartedAt     time.Time
	FinishedAt    time.Time
	ExitCode      int32
	OOMKilled     bool
	PID           int
	LogPath       string
	Labels        map[string]string
	Annotations   map[string]string
}

// User is who a container's first process ran as when it started.
type User struct {
	UID, GID int64
	Groups   []int64
}

// EventKind is what happened.
type EventKind string

// The kinds of events.
const (
	ContainerStarted EventKind = "ContainerStarted"
	ContainerExited  EventKind = "ContainerExited"
	ContainerOOM     EventKind = "ContainerOOM"
	SandboxExited    EventKind = "SandboxExited"
)

// Event is a hint to look again; what holds is what List says then.
type Event struct {
	Kind EventKind
	ID   string
	Pod  PodMeta
}

// Stats is one measurement of a running container.
type Stats struct {
	ID   string
	Pod  PodMeta
	Name string
	Time time.Time
	// CPUNanos is the CPU time used since its start.
	CPUNanos uint64
	// MemoryBytes in use; WorkingSetBytes without what can be dropped.
	MemoryBytes, WorkingSetBytes uint64
	Pids                         uint64
}

// Disk is what files take.
type Disk struct{ Bytes, Files int64 }

// Add gives the sum of both.
func (d Disk) Add(other Disk) Disk { return Disk{d.Bytes + other.Bytes, d.Files + other.Files} }
