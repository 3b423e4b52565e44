package autoscaler

import (
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

// condition is one of the status.
type condition struct {
	kind, status, since, reason, message string
}

func readConditions(list sdk.Config) (conditions []condition) {
	for _, c := range list.Items() {
		conditions = append(conditions, condition{
			c.String("type", ""), c.String("status", ""), c.String("lastTransitionTime", ""), c.String("reason", ""), c.String("message", ""),
		})
	}
	return conditions
}

// set says something of a condition.
func (a *autoscaler) set(kind string, holds bool, reason, message string) {
	status := "False"
	if holds {
		status = "True"
	}
	c := a.condition(kind)
	if c == nil {
		a.conditions = append(a.conditions, condition{kind: kind})
		c = &a.conditions[len(a.conditions)-1]
	}
	if c.status != status {
		c.status, c.since = status, pods.Time(a.Now)
	}
	c.reason, c.message = reason, message
}

func (a *autoscaler) condition(kind string) *condition {
	for i := range a.conditions {
		if a.conditions[i].kind == kind {
			return &a.conditions[i]
		}
	}
	return nil
}

func (a *autoscaler) drop(kind string) {
	left := a.conditions[:0]
	for _, c := range a.conditions {
		if c.kind != kind {
			left = append(left, c)
		}
	}
	a.conditions = left
}

// status is the new one. Without a target it keeps all but the conditions.
func (a *autoscaler) status() string {
	j := &json.Writer{}
	j.Open('{')
	a.currentMetrics(j)
	j.Key("currentReplicas").Int(a.current).Key("desiredReplicas").Int(a.desired).Member("lastScaleTime", a.scaled)
	j.Key("conditions").Open('[')
	for i := range a.conditions {
		c := &a.conditions[i]
		j.Open('{').Key("type").Text(c.kind).Key("status").Text(c.status).Member("lastTransitionTime", c.since)
		j.Member("reason", c.reason).Member("message", c.message).Close('}')
	}
	return string(j.Close(']').Close('}').Bytes())
}

func (a *autoscaler) currentMetrics(j *json.Writer) {
	if !a.before.IsNull() {
		j.Key("currentMetrics").Value(a.before.JSON())
	}
	if len(a.metrics) == 0 {
		return
	}
	j.Key("currentMetrics").Open('[')
	for i := range a.metrics {
		m := &a.metrics[i]
		if m.failure != "" {
			j.Value(`{"type":""}`) // as Kubernetes has it
			continue
		}
		m.status(j)
	}
	j.Close(']')
}

// why says what matters of the conditions.
func (a *autoscaler) why() {
	for _, kind := range [...]string{"AbleToScale", "ScalingActive", "ScalingLimited"} {
		c := a.condition(kind)
		if c == nil || kind == "ScalingLimited" && c.status == "False" {
			continue
		}
		a.out.Why = append(a.out.Why, kind+" is "+c.status+": "+c.message+".")
	}
}
