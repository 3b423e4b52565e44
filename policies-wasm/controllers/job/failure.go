package job

import (
	"slices"
	"strconv"

	"github.com/berth-dev/berth/sdk"
)

// failureRule is a rule of spec.podFailurePolicy, about the exit codes of
// containers or else about a pod's conditions.
type failureRule struct {
	action    string
	onExit    bool
	container string
	in        bool
	values    []int64
	patterns  []sdk.Config
}

// match is what the pod failure policy makes of a pod.
type match struct {
	asked bool
	// ignored: the failure does not count. failsIndex: the pod's index has failed.
	ignored, failsIndex bool
	// rule is the one that fails the job, counted from 1.
	rule int
}

func (s *spec) readFailureRules(c sdk.Config) {
	s.hasFailureRules = !c.IsNull()
	list, _ := c.List("rules")
	for _, item := range list {
		rule := failureRule{action: item.String("action", ""), onExit: !item.Object("onExitCodes").IsNull()}
		on := item.Object("onExitCodes")
		rule.container, rule.in = on.String("containerName", ""), on.String("operator", "") == "In"
		values, _ := on.List("values")
		for _, v := range values {
			n, _ := v.Number()
			rule.values = append(rule.values, int64(n))
		}
		rule.patterns, _ = item.List("onPodConditions")
		s.failureRules = append(s.failureRules, rule)
	}
}

// exit is how a container ended, with the first code other than 0 that a rule
// is about.
func (r *failureRule) exit(end sdk.Config) (container string, code int64, ok bool) {
	exits, _ := end.List("exits")
	for _, e := range exits {
		n, _ := e.Object("code").Number()
		name := e.String("container", "")
		if r.container != "" && r.container != name {
			continue
		}
		if slices.Contains(r.values, int64(n)) == r.in {
			return name, int64(n), true
		}
	}
	return "", 0, false
}

// condition is the first of a pod's conditions that a rule is about.
func (r *failureRule) condition(end sdk.Config) (kind string, ok bool) {
	conditions, _ := end.List("conditions")
	for _, c := range conditions {
		for _, p := range r.patterns {
			if kind = c.String("type", ""); kind == p.String("type", "") && c.String("status", "") == p.String("status", "") {
				return kind, true
			}
		}
	}
	return "", false
}

// policy asks the pod failure policy about a pod, once.
func (j *job) policy(p *pod) match {
	if p.matched.asked || len(j.failureRules) == 0 {
		return p.matched
	}
	p.matched.asked = true
	end := j.child(p).Field("pod.end")
	for i := range j.failureRules {
		r := &j.failureRules[i]
		var ok bool
		if r.onExit {
			_, _, ok = r.exit(end)
		} else {
			_, ok = r.condition(end)
		}
		if !ok {
			continue
		}
		switch r.action {
		case "Ignore":
			p.matched.ignored = true
		case "FailIndex":
			p.matched.failsIndex = true
		case "FailJob":
			p.matched.rule = i + 1
		case "Count":
		default:
			continue
		}
		break
	}
	return p.matched
}

// failJob says why the job fails, if a pod has failed in a way that fails it.
func (j *job) failJob() string {
	for i := range j.pods {
		p := &j.pods[i]
		if len(j.failureRules) == 0 || !j.failed(p) || j.policy(p).rule == 0 {
			continue
		}
		at := p.matched.rule - 1
		r, o := &j.failureRules[at], j.child(p)
		end, name := o.Field("pod.end"), o.Namespace+"/"+o.Name
		by := " matching " + r.action + " rule at index " + strconv.Itoa(at)
		if r.onExit {
			container, code, _ := r.exit(end)
			return "Container " + container + " for pod " + name + " failed with exit code " + strconv.FormatInt(code, 10) + by
		}
		kind, _ := r.condition(end)
		return "Pod " + name + " has condition " + kind + by
	}
	return ""
}

// indexFailed tells whether the pod's index has failed with it.
func (j *job) indexFailed(p *pod) bool {
	if !j.failed(p) {
		return false
	}
	m := j.policy(p)
	return m.failsIndex || !m.ignored && numberIn(j.child(p), failureCount) >= j.backoffLimitPerIndex
}

// keepForReplacement finds the last pod that failed of each index that is to be
// tried again: the next one takes its count of failures over.
func (j *job) keepForReplacement() {
	active := j.activeIndexes()
	j.replaced = map[int]int{}
	for i := range j.pods {
		p := &j.pods[i]
		if !p.tracked || !j.valid(p) || !j.failed(p) ||
			j.succeededIndexes.has(p.index) || j.failedIndexes.has(p.index) || active.has(p.index) {
			continue
		}
		last, ok := j.replaced[p.index]
		if !ok || j.failures(&j.pods[last]) <= j.failures(p) && j.ended(p) >= j.ended(&j.pods[last]) {
			j.replaced[p.index] = i
		}
	}
}

// failures are those of the pod's index before it, with those that do not count.
func (j *job) failures(p *pod) int64 {
	return numberIn(j.child(p), failureCount) + numberIn(j.child(p), ignoredCount)
}

func (j *job) activeIndexes() intervals {
	var list []int
	for _, at := range j.running {
		if index := j.pods[at].index; index != none {
			list = append(list, index)
		}
	}
	return intervals(nil).with(list)
}
