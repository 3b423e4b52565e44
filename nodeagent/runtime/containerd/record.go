package containerd

import (
	"fmt"
	"strconv"
	"time"

	"github.com/containerd/containerd/v2/core/containers"
	"github.com/containerd/typeurl/v2"

	"github.com/berth-dev/berth/nodeagent/runtime"
	"github.com/berth-dev/berth/nodeagent/runtime/containerd/keeper"
	"github.com/berth-dev/berth/nodeagent/userns"
)

// record is what a container or sandbox was made from, as far as it is needed
// after a restart. It never changes.
type record struct {
	Sandbox string // of a sandbox: its own id
	Pod     runtime.PodMeta
	Name    string // empty: this is a sandbox
	Attempt uint32
	Image   string
	// MountedImages are those that it sees as volumes.
	MountedImages []string
	// Handler is the runtime, of a container that of its sandbox.
	Handler string
	// NetNS, CgroupParent, ShareProcesses and the host's namespaces are of
	// sandboxes.
	NetNS, CgroupParent              string
	HostPID, HostIPC, ShareProcesses bool
	// IDs are of the sandbox's user namespace.
	IDs      userns.Range
	Hostname string
	// Streams, StdinOnce, TTY, StopSignal and Cgroup are of containers.
	Streams             keeper.Streams
	StdinOnce, TTY      bool
	StopSignal          string
	Cgroup              string
	Labels, Annotations map[string]string
}

func (rec record) isSandbox() bool { return rec.Name == "" }

const extension = "berth.dev/record"

func init() { typeurl.Register(&record{}, "berth.dev", "nodeagent", "containerd", "record") }

// The labels say what happened to a container since it was made.
const (
	labelKind     = "berth.dev/kind" // by which others' containers are told apart
	labelStarted  = "berth.dev/started"
	labelFinished = "berth.dev/finished"
	labelCode     = "berth.dev/exit-code"
	labelOOM      = "berth.dev/oom"
)

// readRecord gives the record of a container; false if it is not Berth's.
func readRecord(c containers.Container) (record, bool) {
	any, ok := c.Extensions[extension]
	if !ok {
		return record{}, false
	}
	v, err := typeurl.UnmarshalAny(any)
	if err != nil {
		return record{}, false
	}
	rec, ok := v.(*record)
	if !ok {
		return record{}, false
	}
	return *rec, true
}

// outcome is how a container ended.
type outcome struct {
	code int32
	at   time.Time
	oom  bool
}

func (o outcome) labels() map[string]string {
	return map[string]string{
		labelFinished: stamp(o.at),
		labelCode:     strconv.Itoa(int(o.code)),
		labelOOM:      strconv.FormatBool(o.oom),
	}
}

// readOutcome reads what labels wrote; false: it has not been settled.
func readOutcome(labels map[string]string) (outcome, bool) {
	at := unstamp(labels[labelFinished])
	if at.IsZero() {
		return outcome{}, false
	}
	code, err := strconv.ParseInt(labels[labelCode], 10, 32)
	if err != nil {
		return outcome{}, false
	}
	return outcome{code: int32(code), at: at, oom: labels[labelOOM] == "true"}, true
}

func stamp(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// unstamp gives the zero time for what is no time.
func unstamp(s string) time.Time {
	t, err := time.Parse(time.RFC3339Nano, s)
	if err != nil {
		return time.Time{}
	}
	return t
}

// signal is the container's stop signal.
func (rec record) signal() string {
	if rec.StopSignal == "" {
		return "SIGTERM"
	}
	return rec.StopSignal
}

func (rec record) String() string {
	return fmt.Sprintf("%s/%s %s", rec.Pod.Namespace, rec.Pod.Name, rec.Name)
}
