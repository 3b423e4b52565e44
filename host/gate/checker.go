package gate

import (
	"context"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Subject is one question: does the condition hold for the pod?
type Subject struct {
	Pod       *v1.Pod
	Condition v1.PodConditionType
	// Observed is what the host saw for the checker, as it asked for.
	Observed []Observation
}

// Observation is the outcome of something that a checker wants to know.
type Observation struct {
	Name   string
	OK     bool
	Code   int32
	Detail string
	At     time.Time
}

// Verdict is a checker's answer to one Subject.
type Verdict struct {
	Status  v1.ConditionStatus
	Reason  string
	Message string
	// Again is when to ask anew though nothing changed; zero for never.
	Again time.Duration
}

// A Checker judges the subjects of one batch, each by itself. An error means
// that it failed as a whole: the conditions become Unknown.
type Checker interface {
	Name() string
	Judge(ctx context.Context, now time.Time, subjects []Subject) ([]Verdict, error)
	// Wants are the observations to make of each pod before it is judged.
	Wants() []Want
}

// Want is something that the host observes for a checker.
type Want struct {
	Name string
	// Kind is http, tcp, pods or node.
	Kind string
	// Port and Path are for http and tcp, to the pod's address.
	Port int32
	Path string
	// Selector and Namespace are for pods: how many match, and are ready.
	Selector  string
	Namespace string
	// Condition is for node: the condition of the pod's node.
	Condition string
	Timeout   time.Duration
}
