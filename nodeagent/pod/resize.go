package pod

import (
	"slices"
	"time"

	v1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// Held is what stands between the resources that the spec asks for and those
// that are in force.
type Held struct {
	// Reason is Deferred, Infeasible or Error.
	Reason  string `json:"reason"`
	Message string `json:"message,omitempty"`
	// Again is when to try anew; zero is when the spec changes.
	Again time.Time `json:"again,omitzero"`
}

// resizeAgain is when a resize that could not be carried out is tried anew.
const resizeAgain = 5 * time.Second

// Grant is what the machine has granted a pod: what its spec asked for when it came, or
// in the last resize that was granted. By it containers start, and by it the pod counts
// against the machine. It is replaced, never changed.
type Grant struct {
	// Whole are the resources of the pod as a whole, if it has such.
	Whole *v1.ResourceRequirements `json:"whole,omitempty"`
	// Containers are those by container, but ephemeral ones, which have none.
	Containers map[string]v1.ResourceRequirements `json:"containers,omitempty"`
}

func asked(spec *v1.PodSpec) *Grant {
	out := &Grant{Whole: spec.Resources, Containers: map[string]v1.ResourceRequirements{}}
	for _, list := range [][]v1.Container{spec.InitContainers, spec.Containers} {
		for i := range list {
			out.Containers[list[i].Name] = list[i].Resources
		}
	}
	return out
}

// ungranted says whether the spec asks for other resources than were granted.
func (r *Record) ungranted() bool {
	return !apiequality.Semantic.DeepEqual(r.Granted, asked(&r.Pod.Spec))
}

// Resizes says whether a container runs with other resources than its spec
// asks for. Those that started before resources were noted don't.
func (r *Record) Resizes(c Spec) bool {
	s := r.Containers[c.Name]
	if c.Kind == Ephemeral || s == nil || s.Phase != Running || s.Applied == nil {
		return false
	}
	return !apiequality.Semantic.DeepEqual(*s.Applied, c.Resources)
}

// resizing says whether the pod or a container that runs has other resources than the
// spec asks for.
func (r *Record) resizing() bool {
	return r.ungranted() || slices.ContainsFunc(r.Specs(), r.Resizes)
}

// regrows says whether a container that runs is to start anew to have what was granted.
func (r *Record) regrows(c Spec, s *Container) bool {
	return s.Regrow && s.Applied != nil && !apiequality.Semantic.DeepEqual(*s.Applied, r.Granted.Containers[c.Name])
}

// RestartsFor says whether a container must start anew to get what its spec
// asks for.
func (c Spec) RestartsFor(applied *v1.ResourceRequirements) bool {
	for _, p := range c.ResizePolicy {
		if p.RestartPolicy != v1.RestartContainer {
			continue
		}
		if !same(applied.Requests, c.Resources.Requests, p.ResourceName) || !same(applied.Limits, c.Resources.Limits, p.ResourceName) {
			return true
		}
	}
	return false
}

func same(a, b v1.ResourceList, name v1.ResourceName) bool {
	x, y := a[name], b[name]
	return x.Cmp(y) == 0
}

// resize says what is due where resources are not those of the spec: the whole pod is
// resized, whatever runs of it, before those start anew that must.
func (r *Record) resize(now time.Time) Action {
	if !r.ungranted() && !slices.ContainsFunc(r.Specs(), func(c Spec) bool { return r.Resizes(c) && !r.Containers[c.Name].Regrow }) {
		return Action{}
	}
	if h := r.Held; h != nil && (h.Again.IsZero() || h.Again.After(now)) {
		return Action{Wake: h.Again}
	}
	return Action{Kind: Resize}
}

// DidResize notes that a pod was granted what to asks for, which of its containers have
// it, and which must start anew to have theirs.
func (r *Record) DidResize(to *v1.Pod, has, restart []string) {
	r.Held, r.Granted = nil, asked(&to.Spec)
	for name, s := range r.Containers {
		if s.Phase != Running {
			continue
		}
		if res := r.Granted.Containers[name]; slices.Contains(has, name) {
			s.Applied = res.DeepCopy()
		}
		s.Regrow = slices.Contains(restart, name)
	}
}

// DidNotResize notes why the resources stay as they are.
func (r *Record) DidNotResize(reason, message string, now time.Time) {
	r.Held = &Held{Reason: reason, Message: message}
	if reason != v1.PodReasonInfeasible {
		r.Held.Again = now.Add(resizeAgain)
	}
}

// resizeCondition tells of a resize that is not done; nil where there is none.
func (r *Record) resizeCondition() *v1.PodCondition {
	if r.Terminating() || r.Finished() || !r.resizing() {
		return nil
	}
	c := truth(v1.PodResizeInProgress, true, "", "")
	if h := r.Held; h != nil {
		c.Reason, c.Message = h.Reason, h.Message
		if h.Reason != v1.PodReasonError {
			c.Type = v1.PodResizePending
		}
	}
	return &c
}

// Holds is the pod as it counts against the machine: with what it was given,
// not with what a resize asks for that has not been granted.
func (r *Record) Holds() *v1.Pod {
	if !r.ungranted() {
		return r.Pod
	}
	return r.with(func(name string) v1.ResourceRequirements { return r.Granted.Containers[name] })
}

// InForce is the pod with the resources that it and its containers have now.
func (r *Record) InForce() *v1.Pod {
	return r.with(func(name string) v1.ResourceRequirements {
		if s := r.Containers[name]; s != nil && s.Phase == Running && s.Applied != nil {
			return *s.Applied
		}
		return r.Granted.Containers[name]
	})
}

// with is the pod with what it was granted as a whole, and resources by container.
func (r *Record) with(resources func(name string) v1.ResourceRequirements) *v1.Pod {
	p := r.Pod.DeepCopy()
	p.Spec.Resources = r.Granted.Whole.DeepCopy()
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			res := resources(list[i].Name)
			list[i].Resources = *res.DeepCopy()
		}
	}
	return p
}
