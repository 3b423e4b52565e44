package autoscaler

import (
	"math"
	"strconv"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/json"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// metric is what came of one of the spec.
type metric struct {
	replicas int64
	name     string
	// reason, cause and failure say why there is no number: the last with what was
	// looked for.
	reason, cause, failure string
	status                 func(j *json.Writer)
}

func failed(reason, cause, failure string) metric {
	return metric{reason: reason, cause: cause, failure: failure + cause}
}

// pod is one of the target's.
type pod struct {
	*reconcile.Object
	started         int64
	measured        bool
	at, window      int64
	usage, requests sdk.Config
}

func (a *autoscaler) pods() (all []pod) {
	for _, o := range a.RelatedOf("Pod") {
		p := pod{Object: o, usage: o.Field(abi.FactPodUsage), requests: o.Field(abi.FactPodRequests)}
		started, _ := o.Field("status.startTime").Text()
		p.started = pods.Nanos(started)
		p.measured = !p.usage.IsNull()
		p.at, p.window = number(p.usage.Object("time"), 0), number(p.usage.Object("window"), 0)
		all = append(all, p)
	}
	return all
}

// used is how much the pod, or a container of it, uses of a resource.
func (p *pod) used(resource, container string) (total int64, ok bool) {
	found := false
	for name, used := range p.usage.Object("containers").All {
		if container != "" && name != container {
			continue
		}
		n, has := used.Object(resource).Number()
		if !has {
			return 0, false
		}
		total, found = total+int64(n), true
	}
	return total, found
}

// requested is how much it requests.
func (p *pod) requested(resource, container string) (total int64, missing string) {
	if whole := p.requests.Object("pod"); container == "" && !whole.IsNull() {
		n, ok := whole.Object(resource).Number()
		if !ok {
			return 0, "missing pod-level request for " + resource + " in Pod " + p.Name
		}
		return int64(n), ""
	}
	for _, c := range p.requests.Object("containers").Items() {
		name := c.String("name", "")
		if container != "" && name != container {
			continue
		}
		n, ok := c.Object("requests").Object(resource).Number()
		if !ok {
			return 0, "missing request for " + resource + " in container " + name + " of Pod " + p.Name
		}
		if total += int64(n); container != "" {
			return total, ""
		}
	}
	if container != "" {
		return 0, "container " + container + " not found in Pod " + p.Name
	}
	return total, ""
}

// measure works one metric out; said is what adapters answered about it.
func (a *autoscaler) measure(spec, said sdk.Config, set []pod) metric {
	switch kind := spec.String("type", ""); kind {
	case "Resource":
		return a.resource(spec.Object("resource"), kind, set)
	case "ContainerResource":
		return a.resource(spec.Object("containerResource"), kind, set)
	case "Pods":
		return a.podsMetric(spec.Object("pods"), said, set)
	case "Object":
		return a.object(spec.Object("object"), said, set)
	case "External":
		return a.external(spec.Object("external"), said, set)
	default:
		return failed("InvalidMetricSourceType", "unknown metric source type "+strconv.Quote(kind), "")
	}
}

// resource works out how many pods would use what each should.
func (a *autoscaler) resource(spec sdk.Config, kind string, set []pod) metric {
	name, container, goal := spec.String("name", ""), spec.String("container", ""), spec.Object("target")
	reason, failure, label := "FailedGetResourceMetric", "failed to get "+name+" resource metric value: ", name+" resource utilization (percentage of request)"
	if kind == "ContainerResource" {
		reason, failure, label = "FailedGetContainerResourceMetric", "failed to get "+container+" container metric value: ", name+" container resource utilization (percentage of request)"
	}
	c := &calculation{autoscaler: a, resource: name, container: container, set: set}
	c.down, c.up = a.tolerances()
	what := "utilization"
	percent, relative := goal.Object("averageUtilization").Number()
	if value := goal.String("averageValue", ""); value != "" {
		what, label, c.goal = "usage", name+" resource", quantity(value, milli)
	} else if relative {
		c.relative, c.goal = true, int64(percent)
	} else {
		return failed(reason, "invalid resource metric source: neither an average utilization target nor an average value (usage) target was set", failure)
	}
	replicas, problem := c.replicas()
	if problem != "" {
		return failed(reason, "failed to get "+name+" "+what+": "+problem, failure)
	}
	return metric{replicas: replicas, name: label, status: func(j *json.Writer) { c.status(j, kind) }}
}

func (a *autoscaler) tolerances() (down, up float64) {
	read := func(rules string) float64 {
		text := a.spec.Object("behavior").Object(rules).String("tolerance", "")
		if text == "" {
			return tolerance
		}
		return float64(quantity(text, nano)) / 1e9
	}
	return read("scaleDown"), read("scaleUp")
}

// calculation is of one resource.
type calculation struct {
	*autoscaler
	resource, container string
	set                 []pod
	// values are of pods by name, in place of what they use of a resource.
	values map[string]int64
	// goal is in percent of requests where it is relative, else in thousandths.
	goal     int64
	relative bool
	down, up float64
	// counted are the pods that count, and what they use and request.
	counted []share
	ready   int64
	missing []int
	unready []int
	// percent and average are of what was measured.
	percent, average int64
}

type share struct{ used, requested int64 }

func (c *calculation) status(j *json.Writer, kind string) {
	key := "resource"
	if kind == "ContainerResource" {
		key = "containerResource"
	}
	j.Open('{').Key("type").Text(kind).Key(key).Open('{').Key("name").Text(c.resource).Member("container", c.container)
	j.Key("current").Open('{')
	if c.relative {
		j.Key("averageUtilization").Int(c.percent)
	}
	j.Key("averageValue").Text(amount(c.resource, c.average)).Close('}').Close('}').Close('}')
}

// replicas are those that would each use what they should.
func (c *calculation) replicas() (n int64, problem string) {
	requests, problem := c.group()
	if problem != "" {
		return 0, problem
	}
	ratio, problem := c.ratio(true)
	if problem != "" {
		return 0, problem
	}
	rising := len(c.unready) > 0 && ratio > 1
	if !rising && len(c.missing) == 0 {
		if c.tolerates(ratio) {
			return c.current, ""
		}
		return ceil(ratio, c.ready), ""
	}
	c.assume(requests, ratio, rising)
	return c.again(ratio)
}

// again is replicas with what was assumed: it never turns round what the
// measurements say.
func (c *calculation) again(ratio float64) (n int64, problem string) {
	again, problem := c.ratio(false)
	if problem != "" {
		return 0, problem
	}
	if c.tolerates(again) || ratio < 1 && again > 1 || ratio > 1 && again < 1 {
		return c.current, ""
	}
	n = ceil(again, int64(len(c.counted)))
	if again < 1 && n > c.current || again > 1 && n < c.current {
		return c.current, ""
	}
	return n, ""
}

func ceil(ratio float64, pods int64) int64 { return int64(int32(math.Ceil(ratio * float64(pods)))) }

func (c *calculation) tolerates(ratio float64) bool { return 1-c.down <= ratio && ratio <= 1+c.up }

// assume counts the pods that say nothing: on the way down those without
// measurement as using what they may, on the way up as using nothing, and with
// them those that are not ready.
func (c *calculation) assume(requests []int64, ratio float64, rising bool) {
	for _, i := range c.missing {
		switch {
		case ratio < 1 && c.relative:
			c.counted = append(c.counted, share{requests[i] * max(100, c.goal) / 100, requests[i]})
		case ratio < 1:
			c.counted = append(c.counted, share{c.goal, 0})
		case ratio > 1:
			c.counted = append(c.counted, share{0, requests[i]})
		}
	}
	if rising {
		for _, i := range c.unready {
			c.counted = append(c.counted, share{0, requests[i]})
		}
	}
}

// group tells the pods that count from those that are missing or not ready.
func (c *calculation) group() (requests []int64, problem string) {
	if missing := c.unmeasured(); missing != "" {
		return nil, missing
	}
	requests = make([]int64, len(c.set))
	var wrong string
	for i := range c.set {
		p := &c.set[i]
		if c.relative {
			var missing string
			if requests[i], missing = p.requested(c.resource, c.container); missing != "" && wrong == "" {
				wrong = missing
			}
		}
		if p.Deleted != 0 || p.Pod.Phase == "Failed" {
			delete(c.values, p.Name)
			continue
		}
		used, ok := c.used(p)
		switch {
		case p.Pod.Phase == "Pending":
			c.unready = append(c.unready, i)
			delete(c.values, p.Name)
		case !ok:
			c.missing = append(c.missing, i)
		case c.resource == "cpu" && c.young(p):
			c.unready = append(c.unready, i)
		default:
			c.ready++
			c.counted = append(c.counted, share{used, requests[i]})
			delete(c.values, p.Name)
		}
	}
	for _, used := range c.values { // of pods that the target does not have, which count too
		c.counted = append(c.counted, share{used: used})
	}
	if len(c.counted) == 0 {
		return nil, "did not receive metrics for targeted pods (pods might be unready)"
	}
	return requests, wrong
}

// unmeasured says why nothing can be worked out.
func (c *calculation) unmeasured() string {
	if c.values != nil {
		if len(c.set) == 0 {
			return noPods
		}
		return ""
	}
	for i := range c.set {
		if c.set[i].measured {
			return ""
		}
	}
	return "unable to get metrics for resource " + c.resource + ": no metrics returned from resource metrics API"
}

// used is what a pod uses, or the value of its metric.
func (c *calculation) used(p *pod) (n int64, ok bool) {
	if c.values != nil {
		n, ok = c.values[p.Name]
		return n, ok
	}
	return p.used(c.resource, c.container)
}

// young tells whether what a pod uses says little: it is not ready, or its start
// was measured.
func (c *calculation) young(p *pod) bool {
	switch {
	case p.started == 0 || p.Pod.ReadySince == 0:
		return true
	case p.started+initialization > c.Now:
		return !p.Pod.Ready || p.at < p.Pod.ReadySince+p.window
	}
	return !p.Pod.Ready && p.started+initialReadiness > p.Pod.ReadySince
}

// ratio is of what the counted pods use to what they should.
func (c *calculation) ratio(first bool) (ratio float64, problem string) {
	var used, requested int64
	for _, s := range c.counted {
		used, requested = used+s.used, requested+s.requested
	}
	average := used / int64(len(c.counted))
	percent := int64(0)
	if c.relative {
		if requested == 0 {
			return 0, "no metrics returned matched known pods"
		}
		percent = int64(int32(used * 100 / requested))
		ratio = float64(percent) / float64(c.goal)
	} else {
		ratio = float64(average) / float64(c.goal)
	}
	if first {
		c.percent, c.average = percent, average
	}
	return ratio, ""
}
