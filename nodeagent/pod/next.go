package pod

import (
	"fmt"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
)

// ActionKind is what is to be done.
type ActionKind string

// The actions.
const (
	// None: nothing until something changes, or until Wake.
	None ActionKind = ""
	// SetUp makes folders, cgroup and volumes.
	SetUp ActionKind = "set up"
	// StartSandbox connects the network and starts the pause process.
	StartSandbox ActionKind = "start sandbox"
	// StartContainer fetches the image, makes, starts and hooks Container.
	StartContainer ActionKind = "start container"
	// StopContainer ends Container because of Reason; it may start again.
	StopContainer ActionKind = "stop container"
	// Resize brings the resources in force to those of the spec.
	Resize ActionKind = "resize"
	// StopAll ends all that runs by the record's deadline, sidecars last.
	StopAll ActionKind = "stop all"
	// ResetSandbox removes a sandbox that died, so that a new one can start.
	ResetSandbox ActionKind = "reset sandbox"
	// TearDown removes sandbox, network, volumes and cgroup. Logs stay.
	TearDown ActionKind = "tear down"
	// Finish removes the pod from the API and all that is left of it.
	Finish ActionKind = "finish"
)

// Action is one step, and when to look again if nothing happens.
type Action struct {
	Kind      ActionKind
	Container string
	// Grace for StopContainer.
	Grace  time.Duration
	Reason string
	// Wake is when time alone makes another action due; zero is never.
	Wake time.Time
}

// Next names the action that is due. It notes in the record what the passage
// of time decided (a deadline, a waiting reason), and that what it has stopped is to
// start anew; nothing else.
func (r *Record) Next(now time.Time) Action {
	if r.Rejected != nil || r.Settled {
		if r.Touched && !r.RetryAt.After(now) {
			return Action{Kind: TearDown}
		}
		return r.afterEnd(now)
	}
	if r.deadlinePassed(now) && r.Ended == nil && !r.Terminating() && !r.Finished() {
		r.End(Verdict{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}, r.Grace(), now)
	}
	if r.Terminating() || r.Finished() {
		return r.stop(now)
	}
	a := r.start(now)
	if at := r.activeDeadline(); !at.IsZero() {
		a.Wake = earliest(a.Wake, at)
	}
	return a
}

func (r *Record) activeDeadline() time.Time {
	s := r.Pod.Spec.ActiveDeadlineSeconds
	if s == nil {
		return time.Time{}
	}
	return r.StartTime.Add(time.Duration(*s) * time.Second)
}

func (r *Record) deadlinePassed(now time.Time) bool {
	at := r.activeDeadline()
	return !at.IsZero() && !now.Before(at)
}

// stop ends what runs, then takes down what is there.
func (r *Record) stop(now time.Time) Action {
	wait := r.RetryAt.After(now)
	for c := range r.all() {
		if r.Containers[c.Name].Phase != Running {
			continue
		}
		if wait {
			return Action{Wake: r.RetryAt}
		}
		if !r.Terminating() {
			r.kill(now, r.Grace()) // only sidecars are left of a finished pod
		}
		return Action{Kind: StopAll}
	}
	switch {
	case !r.SetUp && !r.Touched && r.Sandbox.ID == "" && !r.Sandbox.Dirty:
		return r.afterEnd(now)
	case wait:
		return Action{Wake: r.RetryAt}
	}
	return Action{Kind: TearDown}
}

// afterEnd is what remains for a pod that has nothing on the machine.
func (r *Record) afterEnd(now time.Time) Action {
	if !r.Gone && r.Pod.DeletionTimestamp == nil {
		return Action{}
	}
	if at := r.RetryAt.Add(min(0, finishMost-r.RetryFor)); at.After(now) {
		return Action{Wake: at}
	}
	return Action{Kind: Finish}
}

// start brings up what should run.
func (r *Record) start(now time.Time) Action {
	if r.RetryAt.After(now) {
		return Action{Wake: r.RetryAt}
	}
	if !r.SetUp {
		return Action{Kind: SetUp}
	}
	if r.Sandbox.ID != "" && !r.Sandbox.Ready || r.Sandbox.ID == "" && r.Sandbox.Dirty {
		return Action{Kind: ResetSandbox}
	}
	if r.Sandbox.ID == "" {
		return Action{Kind: StartSandbox}
	}
	return r.containers(now)
}

// containers finds the first container for which something is due.
func (r *Record) containers(now time.Time) Action {
	resize := r.resize(now)
	if resize.Kind != None {
		return resize
	}
	wake := resize.Wake
	initializing := !r.Initialized
	for c := range r.all() {
		if c.Kind == Regular && initializing {
			// All before were passed: the init containers are done.
			initializing = false
			r.Initialized = true
		}
		a := r.container(c, now)
		if a.Kind != None {
			return a
		}
		wake = earliest(wake, a.Wake)
		if initializing && (c.Kind == Init || c.Kind == Sidecar) && !r.passed(c) {
			return r.ephemerals(wake, now)
		}
	}
	return Action{Wake: wake}
}

// ephemerals may start while the init containers still work.
func (r *Record) ephemerals(wake, now time.Time) Action {
	for c := range r.all() {
		if c.Kind != Ephemeral {
			continue
		}
		if a := r.container(c, now); a.Kind != None {
			return a
		}
	}
	return Action{Wake: wake}
}

// passed says whether the next init container may start after this one.
func (r *Record) passed(c Spec) bool {
	s := r.Containers[c.Name]
	if c.Kind == Sidecar {
		return s.Phase == Running && s.Started
	}
	return s.Phase == Terminated && s.ExitCode == 0
}

// container says what is due for one container.
func (r *Record) container(c Spec, now time.Time) Action {
	s := r.Containers[c.Name]
	if s.Phase == Running {
		return r.running(c, s)
	}
	if s.Phase == Terminated && !r.again(c, s) {
		return Action{}
	}
	if c.Kind == Init && r.Initialized {
		return Action{}
	}
	if s.Wait != nil && s.Wait.Again.After(now) {
		return Action{Wake: s.waitOn(now)}
	}
	if s.Phase == Terminated {
		if until := s.Restart.Until(s.FinishedAt); until.After(now) {
			s.Wait = &Wait{Reason: "CrashLoopBackOff", Since: now, Again: until, Message: fmt.Sprintf(
				"back-off %s restarting failed container=%s pod=%s_%s(%s)",
				s.Restart.Delay, c.Name, r.Pod.Name, r.Pod.Namespace, r.Pod.UID)}
			return Action{Wake: until}
		}
	}
	return Action{Kind: StartContainer, Container: c.Name}
}

// sayFirst is how long the reason of a failed pull is shown before it becomes
// ImagePullBackOff.
const sayFirst = time.Second

// waitOn notes how a wait is shown as it goes on, and says when to look again.
func (s *Container) waitOn(now time.Time) time.Time {
	w := s.Wait
	if w.Reason != "ErrImagePull" && w.Reason != "RegistryUnavailable" {
		return w.Again
	}
	if at := w.Since.Add(sayFirst); now.Before(at) {
		return at
	}
	w.Message = fmt.Sprintf("Back-off pulling image %q: %s: %s", w.Image, w.Reason, w.Message)
	w.Reason = "ImagePullBackOff"
	return w.Again
}

// running says what is due for a container that runs.
func (r *Record) running(c Spec, s *Container) Action {
	if s.Unhealthy != "" {
		s.Regrow = s.Regrow || r.policy(c) != v1.ContainerRestartPolicyNever // with whatever code it ends
		return Action{Kind: StopContainer, Container: c.Name, Grace: r.probeGrace(c), Reason: s.Unhealthy}
	}
	if s.Image != "" && s.Image != c.Image && c.Kind != Ephemeral {
		s.Regrow = true // whatever the policy
		return Action{Kind: StopContainer, Container: c.Name, Grace: r.Grace(), Reason: fmt.Sprintf(
			"Container %s definition changed, will be restarted", c.Name)}
	}
	if r.regrows(c, s) {
		return Action{Kind: StopContainer, Container: c.Name, Grace: r.Grace(), Reason: "Container " + c.Name + " resize requires restart"}
	}
	return Action{}
}

// probeGrace is the grace of a kill that a probe asked for.
func (r *Record) probeGrace(c Spec) time.Duration {
	p := c.LivenessProbe
	if !r.Containers[c.Name].Started { // the others wait for this one
		p = c.StartupProbe
	}
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	return r.Grace()
}

// again says whether a container that ended is to start again.
func (r *Record) again(c Spec, s *Container) bool {
	switch {
	case c.Kind == Ephemeral:
		return false
	case c.Kind == Sidecar, s.Regrow:
		return true
	}
	switch policy := r.restartPolicy(c, s.ExitCode); {
	case policy == v1.ContainerRestartPolicyNever:
		return false
	case policy == v1.ContainerRestartPolicyOnFailure, c.Kind == Init:
		return s.ExitCode != 0
	}
	return true
}

// restartPolicy is what the first of the container's own rules for this exit code says,
// else its policy or the pod's.
func (r *Record) restartPolicy(c Spec, code int32) v1.ContainerRestartPolicy {
	i := slices.IndexFunc(c.RestartPolicyRules, func(rule v1.ContainerRestartRule) bool {
		return rule.ExitCodes != nil &&
			slices.Contains(rule.ExitCodes.Values, code) == (rule.ExitCodes.Operator == v1.ContainerRestartRuleOnExitCodesOpIn)
	})
	if i >= 0 && c.RestartPolicyRules[i].Action == v1.ContainerRestartRuleActionRestart {
		return v1.ContainerRestartPolicyAlways
	}
	return r.policy(c)
}

// policy is the container's own restart policy, or else its pod's.
func (r *Record) policy(c Spec) v1.ContainerRestartPolicy {
	if c.RestartPolicy != nil {
		return *c.RestartPolicy
	}
	return v1.ContainerRestartPolicy(r.Pod.Spec.RestartPolicy)
}

// Finished says whether the pod's work is over for good: every container ended
// and none starts again, or an init container failed for good.
func (r *Record) Finished() bool {
	if r.Rejected != nil || r.Settled {
		return true
	}
	for c := range r.all() {
		s := r.Containers[c.Name]
		switch c.Kind {
		case Init:
			if !r.Initialized && s.Phase == Terminated && s.ExitCode != 0 && !r.again(c, s) {
				return true
			}
		case Regular:
			if s.Phase != Terminated || r.again(c, s) {
				return false
			}
		}
	}
	return true
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
