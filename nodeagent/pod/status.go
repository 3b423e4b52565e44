package pod

import (
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/resource"
)

// Host is what a status says of the machine.
type Host struct {
	// IPs of the node, the primary first.
	IPs []string
	// Runtime is the scheme of container ids: "containerd".
	Runtime string
	// RecursiveReadOnly: its runtime can make mounts so.
	RecursiveReadOnly bool
}

// Status gives the whole status to report at a time. It remembers in the
// record when its conditions changed.
func (r *Record) Status(h Host, now time.Time) v1.PodStatus {
	if r.Settled {
		return *r.Pod.Status.DeepCopy()
	}
	st := v1.PodStatus{
		ObservedGeneration: r.Pod.Generation,
		QOSClass:           QOS(r.Pod),
		StartTime:          &metav1.Time{Time: r.StartTime.Truncate(time.Second)},
		NominatedNodeName:  r.Pod.Status.NominatedNodeName,
		Resize:             r.Pod.Status.Resize,
	}
	if r.Pod.Spec.Resources != nil {
		has := r.Holds()
		st.AllocatedResources = resource.PodRequests(has, resource.PodResourcesOptions{})
		st.Resources = &v1.ResourceRequirements{Requests: st.AllocatedResources, Limits: resource.PodLimits(has, resource.PodResourcesOptions{})}
	}
	if v := r.verdict(); v != nil && !r.anyRunning() {
		st.Reason, st.Message = v.Reason, v.Message
	}
	if len(h.IPs) > 0 {
		st.HostIP = h.IPs[0]
		for _, ip := range h.IPs {
			st.HostIPs = append(st.HostIPs, v1.HostIP{IP: ip})
		}
	}
	r.addresses(&st, h)
	for c := range r.all() {
		cs := r.containerStatus(c, h)
		switch c.Kind {
		case Init, Sidecar:
			st.InitContainerStatuses = append(st.InitContainerStatuses, cs)
		case Regular:
			st.ContainerStatuses = append(st.ContainerStatuses, cs)
		case Ephemeral:
			st.EphemeralContainerStatuses = append(st.EphemeralContainerStatuses, cs)
		}
	}
	if r.Rejected != nil {
		st.InitContainerStatuses, st.ContainerStatuses = nil, nil
	}
	if st.Phase = r.phase(); Terminal(r.Pod.Status.Phase) {
		st.Phase = r.Pod.Status.Phase // it was the last
	}
	st.Conditions = r.conditions(st.Phase, now)
	return st
}

func (r *Record) verdict() *Verdict {
	if r.Rejected != nil {
		return r.Rejected
	}
	return r.Ended
}

func (r *Record) anyRunning() bool {
	for _, s := range r.Containers {
		if s.Phase == Running {
			return true
		}
	}
	return false
}

func (r *Record) addresses(st *v1.PodStatus, h Host) {
	if r.Pod.Spec.HostNetwork && r.Sandbox.ID != "" {
		st.PodIP = st.HostIP
		for _, ip := range h.IPs {
			st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip})
		}
		return
	}
	for _, ip := range r.Sandbox.IPs {
		st.PodIPs = append(st.PodIPs, v1.PodIP{IP: ip.String()})
	}
	if len(st.PodIPs) > 0 {
		st.PodIP = st.PodIPs[0].IP
	}
}

func (r *Record) containerStatus(c Spec, h Host) v1.ContainerStatus {
	s := r.Containers[c.Name]
	started := s.Started
	cs := v1.ContainerStatus{
		Name: c.Name, Image: c.Image, ImageID: s.ImageID, RestartCount: int32(s.Restarts),
		Started: &started, Ready: s.Ready, State: r.state(c, s, h),
	}
	res := r.Granted.Containers[c.Name]
	if s.Phase == Running && s.Applied != nil {
		res = *s.Applied
	}
	cs.AllocatedResources = res.Requests
	if len(res.Limits)+len(res.Requests) > 0 {
		cs.Resources = &v1.ResourceRequirements{Limits: res.Limits, Requests: res.Requests}
	}
	if s.ID != "" {
		cs.ContainerID = h.Runtime + "://" + s.ID
	}
	if c.Kind == Init && s.Phase == Terminated && s.ExitCode == 0 {
		cs.Ready = true
	}
	if s.User != nil {
		cs.User = &v1.ContainerUser{Linux: &v1.LinuxContainerUser{UID: s.User.UID, GID: s.User.GID, SupplementalGroups: s.User.Groups}}
	}
	if last := r.Previous(c); last != nil {
		cs.LastTerminationState.Terminated = terminated(last, h)
	}
	cs.VolumeMounts = r.volumeMounts(c, h)
	return cs
}

// Previous is the end of the run before the one that the status shows; nil if there is
// none.
func (r *Record) Previous(c Spec) *Termination {
	s := r.Containers[c.Name]
	shown := r.endOf(c, s) != nil
	switch {
	case s.Phase == Terminated && !shown:
		return s.termination()
	case s.Phase == Waiting && shown:
		return nil // shown already
	}
	return s.Last
}

func (r *Record) state(c Spec, s *Container, h Host) v1.ContainerState {
	if s.Phase == Running {
		return v1.ContainerState{Running: &v1.ContainerStateRunning{StartedAt: metav1.NewTime(s.StartedAt)}}
	}
	if end := r.endOf(c, s); end != nil {
		return v1.ContainerState{Terminated: terminated(end, h)}
	}
	switch {
	case s.Wait != nil:
		return waiting(s.Wait.Reason, s.Wait.Message)
	case s.Phase == Terminated: // it starts anew, and what the API is told to have ended may not
		return waiting("ContainerCreating", "")
	case c.Kind == Init || c.Kind == Sidecar || len(r.Pod.Spec.InitContainers) > 0:
		return waiting("PodInitializing", "")
	}
	return waiting("ContainerCreating", r.Failure)
}

// endOf is how a container that does not run has ended, as far as the API is told; nil
// where it waits.
func (r *Record) endOf(c Spec, s *Container) *Termination {
	if s.Phase == Terminated {
		if s.Wait == nil && !s.Regrow || r.Terminating() || r.Finished() {
			return s.termination()
		}
		return nil
	}
	switch {
	case !r.Down():
		return nil
	case s.Last != nil: // in the sandbox before
		return s.Last
	case s.Wait == nil && r.Initialized && c.Kind != Init:
		return &Termination{ExitCode: 137, Reason: "ContainerStatusUnknown",
			Message: "The container could not be located when the pod was terminated"}
	}
	return nil
}

// Down: nothing of the pod runs, and nothing will.
func (r *Record) Down() bool {
	return (r.Terminating() || r.Finished()) && !r.anyRunning() && !r.SetUp && !r.Touched && r.Sandbox.ID == ""
}

func waiting(reason, message string) v1.ContainerState {
	return v1.ContainerState{Waiting: &v1.ContainerStateWaiting{Reason: reason, Message: message}}
}

func terminated(t *Termination, h Host) *v1.ContainerStateTerminated {
	out := &v1.ContainerStateTerminated{
		ExitCode: t.ExitCode, Reason: t.Reason, Message: t.Message,
		StartedAt: metav1.NewTime(t.StartedAt), FinishedAt: metav1.NewTime(t.FinishedAt),
	}
	if t.ID != "" {
		out.ContainerID = h.Runtime + "://" + t.ID
	}
	return out
}

// Active says that the pod holds resources: as the scheduler has it, until the API
// is told of its end.
func (r *Record) Active() bool { return !Terminal(r.phase()) }

// phase follows the kubelet's rules: Pending until every container has run
// once, Running while any may run again, else Succeeded or Failed.
func (r *Record) phase() v1.PodPhase {
	if r.Rejected != nil {
		return v1.PodFailed
	}
	if r.Ended != nil && !r.anyRunning() {
		return v1.PodFailed
	}
	if !r.Initialized {
		return r.initPhase()
	}
	n := r.count()
	switch {
	case n.waiting > 0 && r.Down():
		return v1.PodFailed
	case n.waiting > 0:
		return v1.PodPending
	case n.running > 0 || r.anyRunning():
		return v1.PodRunning
	case r.Down() || r.Finished() || r.Terminating():
		if n.succeeded == n.stopped {
			return v1.PodSucceeded
		}
		return v1.PodFailed
	}
	return v1.PodRunning
}

// counts are the regular containers of a pod by how they are; succeeded are some
// of the stopped.
type counts struct{ running, waiting, stopped, succeeded int }

func (r *Record) count() (n counts) {
	for c := range r.all() {
		if c.Kind != Regular {
			continue
		}
		switch s := r.Containers[c.Name]; {
		case s.Phase == Running:
			n.running++
		case s.Phase == Terminated: // whatever it waits for now
			n.stopped++
			if s.ExitCode == 0 {
				n.succeeded++
			}
		case s.Last != nil:
			n.stopped++
		default:
			n.waiting++
		}
	}
	return n
}

func (r *Record) initPhase() v1.PodPhase {
	if r.Finished() && !r.anyRunning() {
		return v1.PodFailed
	}
	for c := range r.all() { // a pod that lost its sandbox was running before
		if c.Kind == Regular && r.Containers[c.Name].Phase == Terminated && r.Sandbox.Attempt > 0 {
			return v1.PodRunning
		}
	}
	if r.Down() && r.Terminating() {
		return v1.PodFailed
	}
	return v1.PodPending
}

// Terminal says whether a phase is final.
func Terminal(p v1.PodPhase) bool { return p == v1.PodSucceeded || p == v1.PodFailed }

// conditions computes those that the agent owns; others are left alone.
func (r *Record) conditions(phase v1.PodPhase, now time.Time) []v1.PodCondition {
	want := []v1.PodCondition{
		truth(v1.PodReadyToStartContainers, r.Sandbox.ID != "" && r.Sandbox.Ready, "", ""),
		r.initialized(phase), r.ready(phase), r.containersReady(phase),
	}
	if !slices.ContainsFunc(r.Pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == v1.PodScheduled && c.Status == v1.ConditionTrue }) {
		want = append(want, truth(v1.PodScheduled, true, "", ""))
	}
	if v := r.verdict(); v != nil && v.Disruption != "" {
		want = append(want, v1.PodCondition{Type: v1.DisruptionTarget, Status: v1.ConditionTrue, Reason: v.Disruption, Message: v.Message})
	}
	if c := r.resizeCondition(); c != nil {
		want = append(want, *c)
	}
	for i := range want {
		c := &want[i]
		c.ObservedGeneration = r.Pod.Generation
		c.LastTransitionTime = metav1.NewTime(now.Truncate(time.Second))
		for _, old := range slices.Concat(r.Pod.Status.Conditions, r.Conditions) {
			if old.Type == c.Type && old.Status == c.Status && !old.LastTransitionTime.IsZero() {
				c.LastTransitionTime = old.LastTransitionTime
			}
		}
	}
	r.Conditions = want
	return slices.Clone(want)
}

func truth(t v1.PodConditionType, is bool, reason, message string) v1.PodCondition {
	c := v1.PodCondition{Type: t, Status: v1.ConditionTrue, Reason: reason, Message: message}
	if !is {
		c.Status = v1.ConditionFalse
	}
	return c
}

func (r *Record) initialized(phase v1.PodPhase) v1.PodCondition {
	if phase == v1.PodSucceeded {
		return truth(v1.PodInitialized, true, "PodCompleted", "")
	}
	if r.Initialized {
		return truth(v1.PodInitialized, true, "", "")
	}
	var open []string
	for c := range r.all() {
		if (c.Kind == Init || c.Kind == Sidecar) && !r.passed(c) {
			open = append(open, c.Name)
		}
	}
	if len(open) == 0 {
		return truth(v1.PodInitialized, true, "", "")
	}
	return truth(v1.PodInitialized, false, "ContainersNotInitialized",
		fmt.Sprintf("containers with incomplete status: [%s]", strings.Join(open, " ")))
}

func (r *Record) containersReady(phase v1.PodPhase) v1.PodCondition {
	switch phase {
	case v1.PodSucceeded:
		return truth(v1.ContainersReady, false, "PodCompleted", "")
	case v1.PodFailed:
		return truth(v1.ContainersReady, false, "PodFailed", "")
	}
	var unready []string
	for c := range r.all() {
		if (c.Kind == Regular || c.Kind == Sidecar) && !r.Containers[c.Name].Ready {
			unready = append(unready, c.Name)
		}
	}
	if len(unready) == 0 {
		return truth(v1.ContainersReady, true, "", "")
	}
	return truth(v1.ContainersReady, false, "ContainersNotReady",
		fmt.Sprintf("containers with unready status: [%s]", strings.Join(unready, " ")))
}

// ready needs the containers and each readiness gate; a gate whose condition
// nobody has set counts as False.
func (r *Record) ready(phase v1.PodPhase) v1.PodCondition {
	c := r.containersReady(phase)
	c.Type = v1.PodReady
	if c.Status != v1.ConditionTrue {
		return c
	}
	var open []string
	for _, g := range r.Pod.Spec.ReadinessGates {
		i := slices.IndexFunc(r.Pod.Status.Conditions, func(c v1.PodCondition) bool { return c.Type == g.ConditionType })
		switch {
		case i < 0:
			open = append(open, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType))
		case r.Pod.Status.Conditions[i].Status != v1.ConditionTrue:
			open = append(open, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %s", g.ConditionType, r.Pod.Status.Conditions[i].Status))
		}
	}
	if len(open) > 0 {
		return truth(v1.PodReady, false, "ReadinessGatesNotReady", strings.Join(open, ", "))
	}
	return c
}
