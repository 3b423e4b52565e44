package pod

import (
	"net/netip"
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/berth-dev/berth/nodeagent/runtime"
)

// Record is all that the agent knows of one pod. It is kept on disk as JSON.
type Record struct {
	// Pod is the object as the API last had it.
	Pod *v1.Pod `json:"pod"`
	// Gone: the API has no such pod any more.
	Gone bool `json:"gone,omitempty"`
	// Rejected: admission refused it; it never ran.
	Rejected *Verdict `json:"rejected,omitempty"`
	// Settled: it had ended before the agent saw it; its status stands.
	Settled bool `json:"settled,omitempty"`
	// Ended is why a pod that is not deleted must stop: eviction, deadline.
	Ended *Verdict `json:"ended,omitempty"`
	// StartTime is when the agent first saw it.
	StartTime time.Time `json:"startTime"`
	// KillSince and KillGrace: it has been told to stop.
	KillSince time.Time     `json:"killSince,omitzero"`
	KillGrace time.Duration `json:"killGrace,omitempty"`

	// SetUp: folders, volumes and cgroup are there.
	SetUp bool `json:"setUp,omitempty"`
	// Touched: something may be there that has to be taken down.
	Touched bool    `json:"touched,omitempty"`
	Sandbox Sandbox `json:"sandbox"`
	// Initialized: all init containers did their work in this sandbox.
	Initialized bool `json:"initialized,omitempty"`
	// Containers by name, init and ephemeral ones too.
	Containers map[string]*Container `json:"containers,omitempty"`
	// Conditions that the agent owns, as last reported.
	Conditions []v1.PodCondition `json:"conditions,omitempty"`

	// Granted are the resources that it may have.
	Granted *Grant `json:"granted,omitempty"`
	// Held is why resources that the spec asks for are not granted.
	Held *Held `json:"held,omitempty"`

	// Failure and RetryAt: the last step for the pod as a whole failed.
	Failure  string        `json:"-"`
	RetryAt  time.Time     `json:"-"`
	RetryFor time.Duration `json:"-"`
}

// Verdict is why a pod failed as a whole.
type Verdict struct {
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Disruption, if set, is the reason of its condition DisruptionTarget.
	Disruption string `json:"disruption,omitempty"`
}

// Sandbox of a pod; ID is empty while there is none.
type Sandbox struct {
	ID      string       `json:"id,omitempty"`
	Attempt uint32       `json:"attempt"`
	Ready   bool         `json:"ready,omitempty"`
	IPs     []netip.Addr `json:"ips,omitempty"`
	// Dirty: a network or sandbox may exist that has to be taken down.
	Dirty bool `json:"dirty,omitempty"`
}

// Phase of one container.
type Phase string

// The phases of a container.
const (
	Waiting    Phase = "" // never started, or about to be started again
	Running    Phase = "running"
	Terminated Phase = "terminated"
)

// Container is what is known of one container of the pod.
type Container struct {
	Phase    Phase  `json:"phase,omitempty"`
	ID       string `json:"id,omitempty"`
	Restarts uint32 `json:"restarts,omitempty"`
	// Image of the spec by which it was made.
	Image   string `json:"image,omitempty"`
	ImageID string `json:"imageID,omitempty"`
	LogPath string `json:"logPath,omitempty"`

	// User is who this run started as, if known.
	User *runtime.User `json:"user,omitempty"`
	// Applied are the resources that this run has.
	Applied *v1.ResourceRequirements `json:"applied,omitempty"`
	// Regrow: it starts anew when it has ended, with whatever code, to have those of its
	// spec, or its image, or since a probe wants it killed.
	Regrow bool `json:"regrow,omitempty"`

	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	ExitCode   int32     `json:"exitCode,omitempty"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	// Last is how the run before this one ended.
	Last *Termination `json:"last,omitempty"`

	// Wait is why it does not run, where something went wrong.
	Wait *Wait `json:"wait,omitempty"`
	// Restart and Pull slow down what fails again and again.
	Restart Backoff `json:"restart"`
	Pull    Backoff `json:"pull"`

	// Started and Ready are the probes' answers for this run.
	Started bool `json:"started,omitempty"`
	Ready   bool `json:"ready,omitempty"`
	// Unhealthy: a liveness or startup probe wants it killed; why.
	Unhealthy string `json:"unhealthy,omitempty"`
}

// Wait is a waiting reason as kubectl shows it, since when, and when to try
// anew.
type Wait struct {
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Image is the reference that could not be had, where that is it.
	Image string    `json:"image,omitempty"`
	Since time.Time `json:"since,omitzero"`
	Again time.Time `json:"again,omitzero"`
}

// Termination is the end of a run.
type Termination struct {
	ID         string    `json:"id,omitempty"`
	ExitCode   int32     `json:"exitCode"`
	Reason     string    `json:"reason,omitempty"`
	Message    string    `json:"message,omitempty"`
	StartedAt  time.Time `json:"startedAt,omitzero"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	LogPath    string    `json:"logPath,omitempty"`
}

// New starts a record for a pod that the agent sees for the first time.
func New(p *v1.Pod, now time.Time) *Record {
	r := &Record{Pod: p, StartTime: now, Containers: map[string]*Container{}}
	r.Update(p, now)
	return r
}

// Clone is a copy that shares nothing that changes. Objects of the API are
// replaced, never changed, and shared.
func (r *Record) Clone() *Record {
	out := *r
	out.Rejected, out.Ended, out.Held = clone(r.Rejected), clone(r.Ended), clone(r.Held)
	out.Sandbox.IPs, out.Conditions = slices.Clone(r.Sandbox.IPs), slices.Clone(r.Conditions)
	out.Containers = make(map[string]*Container, len(r.Containers))
	for name, c := range r.Containers {
		one := *c
		one.Applied, one.Last, one.Wait = c.Applied.DeepCopy(), clone(c.Last), clone(c.Wait)
		out.Containers[name] = &one
	}
	return &out
}

func clone[T any](p *T) *T {
	if p == nil {
		return nil
	}
	out := *p
	return &out
}

// Update brings in a newer version of the object.
func (r *Record) Update(p *v1.Pod, now time.Time) {
	if r.Pod.Generation != p.Generation {
		r.Held = nil // what stood against the former spec may not against this one
	}
	was := Record{Pod: r.Pod}
	r.Pod = p
	if r.Granted == nil {
		r.Granted = asked(&p.Spec)
	}
	if r.Containers == nil {
		r.Containers = map[string]*Container{}
	}
	for c := range r.all() {
		if r.Containers[c.Name] == nil {
			r.Containers[c.Name] = &Container{}
		}
		if old, ok := was.Spec(c.Name); ok {
			r.Containers[c.Name].change(old.Container, c.Container)
		}
	}
	if p.DeletionTimestamp != nil {
		grace := time.Duration(0)
		if p.DeletionGracePeriodSeconds != nil {
			grace = time.Duration(*p.DeletionGracePeriodSeconds) * time.Second
		}
		r.kill(now, grace)
	}
	if Terminal(p.Status.Phase) && !Terminal(r.phase()) {
		// Somebody else says that it has ended, and what has ended runs no more.
		r.End(Verdict{Reason: p.Status.Reason, Message: p.Status.Message}, r.Grace(), now)
	}
}

// change ends the waits for which a container's former image or resources were the
// cause.
func (s *Container) change(from, to *v1.Container) {
	other := from.Image != to.Image
	if other {
		s.Wait, s.Pull = nil, Backoff{}
	}
	if other || !apiequality.Semantic.DeepEqual(from.Resources, to.Resources) {
		s.Restart = Backoff{}
		if s.Wait != nil && s.Wait.Reason == "CrashLoopBackOff" {
			s.Wait = nil
		}
	}
}

// Remove notes that the API has the pod no more.
func (r *Record) Remove(now time.Time) {
	r.Gone = true
	if r.KillSince.IsZero() {
		r.kill(now, r.Grace())
	}
}

// End stops a pod that nobody deleted; the first verdict stands.
func (r *Record) End(v Verdict, grace time.Duration, now time.Time) {
	if r.Ended == nil {
		r.Ended = &v
	}
	r.kill(now, grace)
}

func (r *Record) kill(now time.Time, grace time.Duration) {
	if r.KillSince.IsZero() {
		r.KillSince, r.KillGrace = now, grace
		r.RetryAt, r.RetryFor = time.Time{}, 0
	}
	if now.Add(grace).Before(r.KillSince.Add(r.KillGrace)) {
		r.KillGrace = max(now.Add(grace).Sub(r.KillSince), 0)
	}
}

// Grace is what the spec allows for an orderly end.
func (r *Record) Grace() time.Duration {
	if s := r.Pod.Spec.TerminationGracePeriodSeconds; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// Kind of a container within its pod.
type Kind int

// The kinds of containers.
const (
	Init Kind = iota
	Sidecar
	Regular
	Ephemeral
)

// Spec is a container of the pod's spec with its kind.
type Spec struct {
	*v1.Container
	Kind Kind
	// Target is the container whose processes an ephemeral one joins.
	Target string
}

// all walks the containers in the order of their start.
func (r *Record) all() func(func(Spec) bool) {
	return func(yield func(Spec) bool) {
		spec := &r.Pod.Spec
		for i := range spec.InitContainers {
			c := &spec.InitContainers[i]
			kind := Init
			if c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
				kind = Sidecar
			}
			if !yield(Spec{Container: c, Kind: kind}) {
				return
			}
		}
		for i := range spec.Containers {
			if !yield(Spec{Container: &spec.Containers[i], Kind: Regular}) {
				return
			}
		}
		for i := range spec.EphemeralContainers {
			e := &spec.EphemeralContainers[i]
			c := v1.Container(e.EphemeralContainerCommon)
			if !yield(Spec{Container: &c, Kind: Ephemeral, Target: e.TargetContainerName}) {
				return
			}
		}
	}
}

// Specs lists the pod's containers in the order of their start.
func (r *Record) Specs() []Spec { return slices.Collect(r.all()) }

// Spec finds a container of the spec by name.
func (r *Record) Spec(name string) (Spec, bool) {
	for c := range r.all() {
		if c.Name == name {
			return c, true
		}
	}
	return Spec{}, false
}

// Terminating says whether the pod has been told to stop.
func (r *Record) Terminating() bool { return !r.KillSince.IsZero() }

// Deadline is when what still runs is killed.
func (r *Record) Deadline() time.Time { return r.KillSince.Add(r.KillGrace) }
