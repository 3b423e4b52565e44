package pod

import (
	"cmp"
	"net/netip"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// The pace at which a step for the pod as a whole is tried again.
const (
	retryFirst = 500 * time.Millisecond
	retryMost  = 2 * time.Minute
	// finishMost is what telling the API of the end waits at most: others wait for it.
	finishMost = 10 * time.Second
)

// Failed notes that a step for the whole pod did not succeed.
func (r *Record) Failed(err error, now time.Time) {
	r.Failure = err.Error()
	r.RetryFor = min(max(2*r.RetryFor, retryFirst), retryMost)
	r.RetryAt = now.Add(r.RetryFor)
}

func (r *Record) succeeded() { r.Failure, r.RetryFor, r.RetryAt = "", 0, time.Time{} }

// DidSetUp notes that folders, cgroup and volumes are there. The delay goes on growing
// till a sandbox runs: all this is looked at again before each.
func (r *Record) DidSetUp() { r.SetUp, r.RetryAt = true, time.Time{} }

// DidStartSandbox notes a sandbox that runs.
func (r *Record) DidStartSandbox(id string, ips []netip.Addr) {
	r.succeeded()
	r.Sandbox.ID, r.Sandbox.IPs, r.Sandbox.Ready, r.Sandbox.Dirty = id, ips, true, true
}

// DidResetSandbox notes that a dead sandbox is gone and its containers with it.
// Init containers run again in the next one. The pod's cgroup went with it, and what
// was mounted if the machine itself was off.
func (r *Record) DidResetSandbox(now time.Time) {
	r.SetUp, r.RetryAt = false, time.Time{}
	r.Sandbox = Sandbox{Attempt: r.Sandbox.Attempt + 1}
	r.Initialized = false
	for c := range r.all() {
		s := r.Containers[c.Name]
		if s.Phase == Running {
			s.exit(Termination{ExitCode: 137, Reason: "Error", Message: "the pod's sandbox ended", FinishedAt: now})
		}
		if c.Kind == Init && s.Phase == Terminated && r.restarts() {
			s.Last, s.Phase, s.Wait = s.termination(), Waiting, nil
			s.Restarts++
		}
	}
}

// restarts says whether the pod has any right to run again.
func (r *Record) restarts() bool { return r.Pod.Spec.RestartPolicy != "Never" }

// DidTearDown notes that nothing but logs is left on the machine.
func (r *Record) DidTearDown(now time.Time) {
	r.succeeded()
	r.SetUp, r.Touched = false, false
	r.Sandbox.ID, r.Sandbox.Ready, r.Sandbox.Dirty = "", false, false
	for _, s := range r.Containers {
		if s.Phase == Running {
			s.exit(Termination{ExitCode: 137, Reason: "ContainerStatusUnknown",
				Message: "The container could not be located when the pod was terminated", FinishedAt: now})
		}
	}
}

// Run is a container that was started.
type Run struct {
	ID string
	// Image of the spec by which it was made.
	Image     string
	ImageID   string
	LogPath   string
	StartedAt time.Time
	// Quiet: nobody asks whether it is ready; it is when it listens.
	Quiet bool
	// User is who it started as; nil is not known.
	User *runtime.User
	// Resources that it was made with.
	Resources *v1.ResourceRequirements
}

// DidStart notes that a container runs.
func (r *Record) DidStart(name string, run Run, now time.Time) {
	c, ok := r.Spec(name)
	s := r.Containers[name]
	if !ok || s == nil {
		return
	}
	if s.Phase == Terminated {
		s.Last = s.termination()
		s.Restart.Next(s.FinishedAt, now)
		s.Restarts++
	}
	s.Phase, s.ID, s.ImageID, s.LogPath, s.StartedAt = Running, run.ID, run.ImageID, run.LogPath, run.StartedAt
	s.FinishedAt, s.ExitCode, s.Reason, s.Message = time.Time{}, 0, "", ""
	s.Wait, s.Unhealthy, s.Image, s.Pull = nil, "", run.Image, Backoff{}
	s.Applied, s.Regrow, s.User = run.Resources, false, run.User
	s.Started = c.StartupProbe == nil
	s.Ready = s.Started && c.ReadinessProbe == nil && !run.Quiet
}

// NextAttempt is the restart count with which the container would run next.
func (s *Container) NextAttempt() uint32 {
	if s.Phase == Terminated {
		return s.Restarts + 1
	}
	return s.Restarts
}

// DidNotStart notes why a container could not be made, with the waiting reason
// that kubectl shows; it is tried again after a while.
func (r *Record) DidNotStart(name, reason, message string, now time.Time) {
	s := r.Containers[name]
	if s == nil {
		return
	}
	s.Wait = &Wait{Reason: reason, Message: message, Since: now, Again: now.Add(backoffFirst)}
}

// DidNotPull notes that an image that a container runs or mounts is not there.
func (r *Record) DidNotPull(name, image, reason, message string, now time.Time) {
	s := r.Containers[name]
	if s == nil {
		return
	}
	s.Pull.Next(now, now)
	s.Wait = &Wait{Reason: reason, Message: message, Image: image, Since: now, Again: now.Add(s.Pull.Delay)}
}

// DidExit notes how a run ended.
func (r *Record) DidExit(name string, t Termination) {
	s := r.Containers[name]
	if s == nil || s.Phase != Running {
		return
	}
	s.exit(t)
}

func (s *Container) exit(t Termination) {
	s.Phase = Terminated
	s.ExitCode, s.Message, s.FinishedAt = t.ExitCode, t.Message, t.FinishedAt
	if !t.StartedAt.IsZero() {
		s.StartedAt = t.StartedAt
	}
	s.Reason = t.Reason
	if s.Reason == "" {
		s.Reason = "Error"
		if t.ExitCode == 0 {
			s.Reason = "Completed"
		}
	}
	s.Started, s.Ready, s.Unhealthy, s.Wait = false, false, "", nil
}

func (s *Container) termination() *Termination {
	return &Termination{ID: s.ID, ExitCode: s.ExitCode, Reason: s.Reason, Message: s.Message,
		StartedAt: s.StartedAt, FinishedAt: s.FinishedAt, LogPath: s.LogPath}
}

// Probed notes a probe's standing for the run with this id; it says whether
// anything changed. Two standings may come in the wrong order: that a run started, and
// why it is to be killed, is for good.
func (r *Record) Probed(name, id string, started, ready bool, unhealthy string) bool {
	s := r.Containers[name]
	if s == nil || s.Phase != Running || s.ID != id {
		return false
	}
	started, unhealthy = s.Started || started, cmp.Or(s.Unhealthy, unhealthy)
	ready = ready && started
	if s.Started == started && s.Ready == ready && s.Unhealthy == unhealthy {
		return false
	}
	s.Started, s.Ready, s.Unhealthy = started, ready, unhealthy
	return true
}
