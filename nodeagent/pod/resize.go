package pod

import (
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

// Resizes says whether a container runs with other resources than its spec
// asks for. Those that started before resources were noted don't.
func (r *Record) Resizes(c Spec) bool {
	s := r.Containers[c.Name]
	if c.Kind == Ephemeral || s == nil || s.Phase != Running || s.Applied == nil {
		return false
	}
	return !apiequality.Semantic.DeepEqual(*s.Applied, c.Resources)
}

// asWhole says whether the pod as a whole has other resources than its spec asks for.
func (r *Record) asWhole() bool {
	return r.SetUp && !apiequality.Semantic.DeepEqual(r.Applied, r.Pod.Spec.Resources)
}

// resizing says whether the pod or any container has.
func (r *Record) resizing() bool {
	if r.asWhole() {
		return true
	}
	for c := range r.all() {
		if r.Resizes(c) {
			return true
		}
	}
	return false
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

// resize says what is due for a container where resources, its own or the pod's, are not
// those of the spec: first the whole pod is resized, then those start anew that must.
func (r *Record) resize(c Spec, s *Container, now time.Time) Action {
	own := r.Resizes(c)
	if !own && !r.asWhole() {
		return Action{}
	}
	if own && s.Regrow {
		return Action{Kind: StopContainer, Container: c.Name, Grace: r.Grace(), Reason: "Container " + c.Name + " resize requires restart"}
	}
	if h := r.Held; h != nil && (h.Again.IsZero() || h.Again.After(now)) {
		return Action{Wake: h.Again}
	}
	return Action{Kind: Resize}
}

// DidResize notes the resources that are in force, of the pod as a whole and by
// container, and which of them must start anew to have theirs.
func (r *Record) DidResize(whole *v1.ResourceRequirements, applied map[string]v1.ResourceRequirements, restart []string) {
	r.Held, r.Applied = nil, whole.DeepCopy()
	for name, res := range applied {
		if s := r.Containers[name]; s != nil {
			s.Applied = res.DeepCopy()
		}
	}
	for _, name := range restart {
		if s := r.Containers[name]; s != nil && s.Phase == Running {
			s.Regrow = true
		}
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
	if r.Terminating() || !r.resizing() {
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
	if !r.resizing() {
		return r.Pod
	}
	return r.InForce()
}

// InForce is the pod with the resources that it and its containers have now.
func (r *Record) InForce() *v1.Pod {
	p := r.Pod.DeepCopy()
	if r.SetUp {
		p.Spec.Resources = r.Applied.DeepCopy()
	}
	for _, list := range [][]v1.Container{p.Spec.InitContainers, p.Spec.Containers} {
		for i := range list {
			if s := r.Containers[list[i].Name]; s != nil && s.Applied != nil {
				list[i].Resources = *s.Applied.DeepCopy()
			}
		}
	}
	return p
}
