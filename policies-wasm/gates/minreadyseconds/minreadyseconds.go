// Package minreadyseconds is the gate MinReadySeconds: a pod is ready when its
// containers have been ready for some seconds without a break. The setting
// seconds says how many (10 by default); the pod's annotation
// berth.dev/min-ready-seconds overrides it.
package minreadyseconds

import (
	"strconv"
	"time"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/gate"
)

const (
	// ConditionType is the readiness gate that pods name.
	ConditionType = "berth.dev/MinReadySeconds"
	annotation    = "berth.dev/min-ready-seconds"
	most          = 24 * 3600
	second        = 1_000_000_000
)

const schema = `{"type":"object","additionalProperties":false,"properties":{"seconds":` +
	`{"type":"integer","minimum":0,"maximum":86400}}}`

func init() {
	sdk.Gate("MinReadySeconds", &checker{}, []string{ConditionType}, sdk.ConfigSchema(schema),
		sdk.Describe("The pod's containers have been ready for some seconds without a break."))
}

type checker struct{ seconds int64 }

func (g *checker) Configure(c sdk.Config) (err error) {
	if err := c.OnlyKeys("seconds"); err != nil {
		return err
	}
	g.seconds, err = c.Int("seconds", 0, most, 10)
	return err
}

func (g *checker) Check(now int64, pod *gate.Pod) gate.Readiness {
	c := pod.Condition("ContainersReady")
	if c.Status != gate.True {
		return gate.Readiness{Status: gate.False, Reason: "ContainersNotReady", Message: "the pod's containers are not ready"}
	}
	want := g.want(pod) * second
	if since := now - c.Since; since < want {
		return gate.Readiness{
			Status: gate.False, Reason: "ReadyTooShort", RequeueAfter: time.Duration(want - since),
			Message: "the pod's containers must be ready for " + strconv.FormatInt(want/second, 10) + " s",
		}
	}
	return gate.Readiness{Status: gate.True, Reason: "ReadyLongEnough"}
}

func (g *checker) want(pod *gate.Pod) int64 {
	text, ok := pod.Annotations.Get(annotation)
	if !ok {
		return g.seconds
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil || n < 0 || n > most {
		return g.seconds
	}
	return n
}
