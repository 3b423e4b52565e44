package pod

import (
	"net/netip"
	"time"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Observe brings in what the runtime holds for this pod. The message of each
// exited container was read already; message gives it. What comes back are
// runtime ids of leftovers that belong to no run of the record: containers
// that were made but never started, and sandboxes of earlier attempts.
func (r *Record) Observe(l runtime.Listing, message func(Spec, runtime.Container) string, now time.Time) (leftContainers, leftSandboxes []string) {
	leftSandboxes = r.observeSandboxes(l)
	leftContainers, seen := r.observeContainers(l, message, now)
	r.Touched = r.Touched || len(l.Sandboxes)+len(l.Containers) > 0 // whoever started it, it has to be taken down
	for name, s := range r.Containers {
		if s.Phase == Running && !seen[name] {
			s.exit(Termination{ExitCode: 137, Reason: "ContainerStatusUnknown", FinishedAt: now,
				Message: "The container could not be located on the node"})
		}
	}
	return leftContainers, leftSandboxes
}

// observeSandboxes takes over one that runs where the record has none.
func (r *Record) observeSandboxes(l runtime.Listing) (left []string) {
	for _, s := range l.Sandboxes {
		switch {
		case r.Sandbox.ID == "" && s.State == runtime.Running && s.Attempt >= r.Sandbox.Attempt && r.takesOver():
			r.Sandbox = Sandbox{ID: s.ID, Attempt: s.Attempt, Ready: true, Dirty: true, IPs: r.knownIPs()}
			r.SetUp, r.Touched = true, true
		case r.Sandbox.ID == s.ID:
		default:
			left = append(left, s.ID)
		}
	}
	r.Sandbox.Ready = r.Sandbox.ID != "" && runs(l, r.Sandbox.ID)
	return left
}

// observeContainers brings in those that run or have exited; seen are the names of
// those that the record has.
func (r *Record) observeContainers(l runtime.Listing, message func(Spec, runtime.Container) string, now time.Time) (left []string, seen map[string]bool) {
	seen = map[string]bool{}
	for _, c := range l.Containers {
		spec, ok := r.Spec(c.Name)
		if !ok {
			left = append(left, c.ID)
			continue
		}
		s := r.Containers[c.Name]
		if s.ID != c.ID && !r.adopt(spec, s, c) {
			left = append(left, c.ID)
			continue
		}
		seen[c.Name] = true
		if s.Phase == Running && (c.State == runtime.Exited || c.State == runtime.Unknown) {
			s.exit(ending(c, message(spec, c), now))
		}
	}
	return left, seen
}

// takesOver says whether a sandbox that is found can be taken over. One of whose
// addresses nothing is known started as the agent crashed: it is made anew. Of a pod that
// ends it can where nothing was done for it yet: its record is lost, and what runs is to
// end in good order.
func (r *Record) takesOver() bool {
	if r.Terminating() {
		return !r.Touched
	}
	return r.Pod.Spec.HostNetwork || len(r.knownIPs()) > 0
}

// knownIPs are the addresses of a sandbox that was found: the record's, or else
// those that the API was told.
func (r *Record) knownIPs() []netip.Addr {
	if len(r.Sandbox.IPs) > 0 || r.Pod.Spec.HostNetwork {
		return r.Sandbox.IPs
	}
	var out []netip.Addr
	for _, ip := range r.Pod.Status.PodIPs {
		if addr, err := netip.ParseAddr(ip.IP); err == nil {
			out = append(out, addr)
		}
	}
	return out
}

func runs(l runtime.Listing, sandbox string) bool {
	for _, s := range l.Sandboxes {
		if s.ID == sandbox {
			return s.State == runtime.Running
		}
	}
	return false
}

// adopt takes over a run that the record does not know yet: the agent crashed
// before it wrote it down.
func (r *Record) adopt(spec Spec, s *Container, c runtime.Container) bool {
	newer := s.ID == "" || c.Attempt > s.Restarts
	if !newer || c.State == runtime.Created || c.SandboxID != r.Sandbox.ID {
		return false
	}
	if s.Phase == Terminated {
		s.Last = s.termination()
	}
	s.ID, s.Phase, s.Restarts, s.LogPath, s.StartedAt = c.ID, Running, c.Attempt, c.LogPath, c.StartedAt
	s.Image, s.ImageID, s.Wait = spec.Image, c.Image, nil
	has := r.Granted.Containers[spec.Name]
	s.Applied, s.Regrow, s.User = has.DeepCopy(), false, nil
	s.Started = spec.StartupProbe == nil
	s.Ready = s.Started && spec.ReadinessProbe == nil
	return true
}

// ending turns the runtime's view of an exited container into ours.
func ending(c runtime.Container, message string, now time.Time) Termination {
	t := Termination{ID: c.ID, ExitCode: c.ExitCode, Message: message, StartedAt: c.StartedAt, FinishedAt: c.FinishedAt}
	if c.State == runtime.Unknown {
		t.ExitCode, t.Reason = 255, "Unknown"
	}
	if c.OOMKilled {
		t.Reason = "OOMKilled"
	}
	if t.FinishedAt.IsZero() {
		t.FinishedAt = now
	}
	return t
}

// ObserveExits brings in nothing but the ends of runs that the record knows:
// all that can be believed of a listing taken while an action is under way.
func (r *Record) ObserveExits(l runtime.Listing, message func(Spec, runtime.Container) string, now time.Time) {
	for _, c := range l.Containers {
		s := r.Containers[c.Name]
		if s == nil || s.ID != c.ID || s.Phase != Running || c.State != runtime.Exited {
			continue
		}
		if spec, ok := r.Spec(c.Name); ok {
			s.exit(ending(c, message(spec, c), now))
		}
	}
}
