package autoscaler

import (
	"math"
	"strconv"

	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
)

const (
	noPods   = "no pods returned by selector while calculating replica count"
	unasked  = "no adapter was asked yet"
	mostInts = math.MaxInt32
)

// problem is why there is no answer.
func problem(said sdk.Config) string {
	if said.IsNull() {
		return unasked
	}
	return said.String("error", "")
}

func amountOf(c sdk.Config) int64 {
	text, _ := c.Text()
	n, _ := strconv.ParseInt(text, 10, 64)
	return n
}

// podsMetric works out how many pods would each have the value that they should.
func (a *autoscaler) podsMetric(spec, said sdk.Config, set []pod) metric {
	m := spec.Object("metric")
	name := m.String("name", "")
	const reason, failure = "FailedGetPodsMetric", "failed to get pods metric value: "
	if why := problem(said); why != "" {
		return failed(reason, "unable to get metric "+name+": "+why, failure)
	}
	c := &calculation{autoscaler: a, set: set, values: map[string]int64{}, goal: quantity(spec.Object("target").String("averageValue", ""), milli)}
	c.down, c.up = a.tolerances()
	for pod, value := range said.Object("pods").All {
		c.values[pod] = amountOf(value)
	}
	replicas, why := c.replicas()
	if why != "" {
		return failed(reason, why, failure)
	}
	return metric{replicas: replicas, name: "pods metric " + name, status: func(j *json.Writer) {
		j.Open('{').Key("type").Text("Pods").Key("pods").Open('{')
		identify(j, m)
		currently(j, "averageValue", c.average)
		j.Close('}').Close('}')
	}}
}

// object works out how many pods would bring the value of an object's metric to
// what it should be.
func (a *autoscaler) object(spec, said sdk.Config, set []pod) metric {
	const reason, failure = "FailedGetObjectMetric", "failed to get object metric value: "
	m, about, target := spec.Object("metric"), spec.Object("describedObject"), spec.Object("target")
	name, each, whole := m.String("name", ""), target.String("averageValue", ""), target.String("value", "")
	kind := target.String("type", "")
	v := valued{autoscaler: a, total: amountOf(said.Object("value")), what: "value"}
	v.name = about.String("kind", "") + " metric " + name
	within := ""
	switch {
	case kind == "Value" && whole != "":
		v.goal = quantity(whole, milli)
	case kind == "AverageValue" && each != "":
		v.goal, v.what, within = quantity(each, milli), "averageValue", "failed to get "+name+" object metric: "
		v.name = "external metric " + name + "(" + said.String("selector", "nil") + ")"
	default:
		return failed(reason, "invalid object metric source: neither a value target nor an average value target was set", failure)
	}
	if why := problem(said); why != "" {
		// The order is Kubernetes' own.
		cause := "unable to get metric " + name + ": " + about.String("kind", "") + " on " + a.Parent.Namespace + " " + about.String("name", "") + "/" + why
		return metric{reason: reason, cause: cause, failure: failure + within + cause}
	}
	return v.measure(set, reason, failure+within, func(j *json.Writer, shown int64) {
		j.Open('{').Key("type").Text("Object").Key("object").Open('{')
		identify(j, m)
		currently(j, v.what, shown)
		j.Key("describedObject").Value(about.JSON()).Close('}').Close('}')
	})
}

// external does that for a metric of no object.
func (a *autoscaler) external(spec, said sdk.Config, set []pod) metric {
	m, target := spec.Object("metric"), spec.Object("target")
	name, each, whole := m.String("name", ""), target.String("averageValue", ""), target.String("value", "")
	const reason = "FailedGetExternalMetric"
	failure := "failed to get " + name + " external metric value: "
	v := valued{autoscaler: a, what: "value", name: "external metric " + name + "(" + said.String("selector", "nil") + ")"}
	within := "failed to get external metric " + name + ": "
	switch {
	case each != "":
		v.goal, v.what, within = quantity(each, milli), "averageValue", "failed to get "+name+" external metric: "
	case whole != "":
		v.goal = quantity(whole, milli)
	default:
		return failed(reason, "invalid external metric source: neither a value target nor an average value target was set", failure)
	}
	if why := problem(said); why != "" {
		cause := "unable to get external metric " + a.Parent.Namespace + "/" + name + "/" + said.String("selector", "nil") + ": " + why
		return metric{reason: reason, cause: cause, failure: failure + within + cause}
	}
	v.total = sum(said.Object("values"), v.what == "averageValue")
	return v.measure(set, reason, failure+within, func(j *json.Writer, shown int64) {
		j.Open('{').Key("type").Text("External").Key("external").Open('{')
		identify(j, m)
		currently(j, v.what, shown)
		j.Close('}').Close('}')
	})
}

// sum adds as Kubernetes does: what is too much is the most there is, and of an
// average so is a sum below 0.
func sum(values sdk.Config, average bool) (total int64) {
	for _, v := range values.Items() {
		n := amountOf(v)
		if !average && n > 0 && total > math.MaxInt64-n {
			return math.MaxInt64
		}
		if total += n; average && total < 0 {
			return math.MaxInt64
		}
	}
	return total
}

// valued is a metric of one value for all pods.
type valued struct {
	*autoscaler
	total, goal int64
	// what the goal is of: value, or averageValue by pod.
	what, name string
}

func (v *valued) measure(set []pod, reason, failure string, status func(j *json.Writer, shown int64)) metric {
	n, shown, why := v.whole(set)
	if v.what == "averageValue" {
		n, shown, why = v.each()
	}
	if why != "" {
		return failed(reason, why, failure)
	}
	return metric{replicas: n, name: v.name, status: func(j *json.Writer) { status(j, shown) }}
}

func (v *valued) tolerates(ratio float64) bool {
	down, up := v.tolerances()
	return 1-down <= ratio && ratio <= 1+up
}

// whole is for a goal of all pods together.
func (v *valued) whole(set []pod) (n, shown int64, why string) {
	ratio := float64(v.total) / float64(v.goal)
	if v.tolerates(ratio) {
		return v.current, v.total, ""
	}
	if len(set) == 0 {
		return 0, 0, "unable to calculate ready pods: " + noPods
	}
	ready := 0
	for i := range set {
		if set[i].Pod.Phase == "Running" && set[i].Pod.Ready {
			ready++
		}
	}
	return bounded(ratio * float64(ready)), v.total, ""
}

// each is for a goal of each pod, of those that the target says it has.
func (v *valued) each() (n, shown int64, why string) {
	have := v.have
	ratio := float64(v.total) / (float64(v.goal) * float64(have))
	n = have
	if !v.tolerates(ratio) {
		n = bounded(float64(v.total) / float64(v.goal))
	}
	switch {
	case v.total == math.MaxInt64 || have == 0:
		return n, v.total, ""
	default:
		return n, int64(math.Ceil(float64(v.total) / float64(have))), ""
	}
}

func bounded(n float64) int64 { return int64(math.Ceil(min(n, mostInts))) }

func identify(j *json.Writer, m sdk.Config) {
	j.Key("metric").Open('{').Key("name").Text(m.String("name", ""))
	if s := m.Object("selector"); !s.IsNull() {
		j.Key("selector").Value(s.JSON())
	}
	j.Close('}')
}

func currently(j *json.Writer, what string, n int64) {
	j.Key("current").Open('{').Key(what).Text(decimal(n)).Close('}')
}
