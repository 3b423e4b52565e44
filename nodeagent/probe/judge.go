package probe

import (
	"fmt"
	"time"

	v1 "k8s.io/api/core/v1"
)

// Kind of a probe.
type Kind string

// The kinds.
const (
	Startup   Kind = "Startup"
	Readiness Kind = "Readiness"
	Liveness  Kind = "Liveness"
)

// Answer is what one probing gave. With an Err the question was not put, which says
// nothing about the container.
type Answer struct {
	OK     bool
	Output string
	Err    error
}

// judge counts the answers of one probe.
type judge struct {
	kind     Kind
	spec     v1.Probe
	last     bool
	run      int32
	standing bool
}

func newJudge(kind Kind, spec *v1.Probe, standing bool) *judge {
	return &judge{kind: kind, spec: *spec, standing: standing}
}

// hear takes an answer; decided says that a threshold was reached.
func (j *judge) hear(ok bool) (decided bool) {
	if j.run == 0 || j.last != ok {
		j.last, j.run = ok, 0
	}
	j.run++
	need := atLeast1(j.spec.SuccessThreshold, 1)
	if !ok {
		need = atLeast1(j.spec.FailureThreshold, 3)
	}
	if j.run < need {
		return false
	}
	j.standing = ok
	return true
}

func atLeast1(n, otherwise int32) int32 {
	if n < 1 {
		return otherwise
	}
	return n
}

func (j *judge) period() time.Duration {
	return time.Duration(atLeast1(j.spec.PeriodSeconds, 10)) * time.Second
}

func (j *judge) timeout() time.Duration {
	return time.Duration(atLeast1(j.spec.TimeoutSeconds, 1)) * time.Second
}

// unhealthy is the reason for which a container is killed.
func (j *judge) unhealthy(container string) string {
	word := "liveness"
	if j.kind == Startup {
		word = "startup"
	}
	return fmt.Sprintf("Container %s failed %s probe, will be restarted", container, word)
}
