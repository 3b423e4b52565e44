package autoscaler

import (
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/policies-wasm/controllers/pods"
	"github.com/berth-dev/berth/sdk"
	"github.com/berth-dev/berth/sdk/reconcile"
)

// The defaults of kube-controller-manager's flags.
const (
	period           = 15 * pods.Second
	window           = 300 * pods.Second
	initialization   = 300 * pods.Second
	initialReadiness = 30 * pods.Second
	tolerance        = 0.1
)

func target(apiVersion, kind string) reconcile.Kind {
	return reconcile.Kind{
		APIVersion: apiVersion, Kind: kind, By: abi.ByName, Path: "spec.scaleTargetRef.name",
		Fields: []string{"spec.replicas", "spec.selector", "status.replicas"}, Writes: []string{"patch"},
	}
}

func init() {
	sdk.Controller("HorizontalPodAutoscaler", controller{},
		reconcile.Kind{APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", Facts: []string{abi.FactMemory, abi.FactMetrics}, Fields: []string{
			"spec", "status",
		}},
		nil,
		sdk.Related(
			target("apps/v1", "Deployment"), target("apps/v1", "ReplicaSet"), target("apps/v1", "StatefulSet"), target("v1", "ReplicationController"),
			reconcile.Kind{
				APIVersion: "v1", Kind: "Pod", By: abi.ByTarget, Path: "spec.scaleTargetRef",
				Fields: []string{"status.startTime"}, Facts: []string{abi.FactPod, abi.FactPodUsage, abi.FactPodRequests},
			},
			reconcile.Kind{
				APIVersion: "autoscaling/v2", Kind: "HorizontalPodAutoscaler", By: abi.ByNamespace, Fields: []string{"spec.scaleTargetRef"},
			},
		),
		sdk.Describe("Sets how many replicas a workload has by what its pods use."))
}

type controller struct{}

// autoscaler is the parent, read once, and what becomes of it.
type autoscaler struct {
	*reconcile.Request
	out        *reconcile.Result
	spec       sdk.Config
	memory     memory
	conditions []condition
	// current and desired are replicas; scaled is when they were last set.
	current, desired, least, most int64
	// have is how many the target says it has.
	have   int64
	scaled string
	// before are the metrics of the last look, which stay where there is no target.
	before  sdk.Config
	metrics []metric
}

func (controller) Reconcile(r *reconcile.Request) (out reconcile.Result, err error) {
	a := read(r, &out)
	if r.Parent.Deleted != 0 {
		return out, nil
	}
	spec := hash(r.Parent.JSON("spec"))
	if wait := a.memory.at*micro + period - r.Now; wait > 0 && a.memory.spec == spec {
		out.RequeueAfter = time.Duration(wait)
		return out, nil
	}
	a.memory.at, a.memory.spec = r.Now/micro, spec
	a.look()
	out.Status, out.Memory, out.RequeueAfter = a.status(), a.memory.json(), period
	a.why()
	return out, nil
}

func read(r *reconcile.Request, out *reconcile.Result) *autoscaler {
	a := &autoscaler{Request: r, out: out, spec: r.Parent.Field("spec"), least: 1}
	a.memory = readMemory(r.Parent.Field(abi.FactMemory))
	status := r.Parent.Field("status")
	a.conditions = readConditions(status.Object("conditions"))
	a.current, a.desired = number(status.Object("currentReplicas"), 0), number(status.Object("desiredReplicas"), 0)
	a.scaled, a.before = status.String("lastScaleTime", ""), status.Object("currentMetrics")
	a.least = number(a.spec.Object("minReplicas"), 1)
	a.most = number(a.spec.Object("maxReplicas"), 0)
	return a
}

// hash tells one spec from another: the generation does not.
func hash(text string) int64 {
	h := uint32(2166136261)
	for i := 0; i < len(text); i++ {
		h = (h ^ uint32(text[i])) * 16777619
	}
	return int64(h)
}

func number(c sdk.Config, otherwise int64) int64 {
	if n, ok := c.Number(); ok {
		return int64(n)
	}
	return otherwise
}

func (a *autoscaler) tell(kind, reason, message string) {
	a.out.Events = append(a.out.Events, reconcile.Event{Type: kind, Reason: reason, Message: message})
}

// resources are what the kinds of targets are called.
var resources = [...]struct{ kind, group, resource string }{
	{"Deployment", "apps", "deployments.apps"}, {"ReplicaSet", "apps", "replicasets.apps"},
	{"StatefulSet", "apps", "statefulsets.apps"}, {"ReplicationController", "", "replicationcontrollers"},
}

// named is what a scaleTargetRef names.
func named(ref sdk.Config) (group, kind, name string) {
	group, _, versioned := strings.Cut(ref.String("apiVersion", ""), "/")
	if !versioned {
		group = ""
	}
	return group, ref.String("kind", ""), ref.String("name", "")
}

// find is the object that is scaled, nil and why where there is none.
func (a *autoscaler) find() (target *reconcile.Object, missing string) {
	group, kind, name := named(a.spec.Object("scaleTargetRef"))
	for _, r := range resources {
		if r.kind != kind || r.group != group {
			continue
		}
		for _, o := range a.RelatedOf(kind) {
			if o.Name == name {
				return o, ""
			}
		}
		return nil, r.resource + " " + strconv.Quote(name) + " not found"
	}
	return nil, "no matches for kind " + strconv.Quote(kind) + " in group " + strconv.Quote(group)
}

// look is one look at the target and its pods.
func (a *autoscaler) look() {
	target, missing := a.find()
	if target == nil {
		a.tell("Warning", "FailedGetScale", missing)
		a.set("AbleToScale", false, "FailedGetScale", "the HPA controller was unable to get the target's current scale: "+missing)
		return
	}
	a.set("AbleToScale", true, "SucceededGetScale", "the HPA controller was able to get the target's current scale")
	a.before = sdk.Config{}
	a.current, a.have = number(target.Field("spec.replicas"), 1), number(target.Field("status.replicas"), 0)
	a.memory.begin(a.current, a.Now)
	desired, reason, ok := a.wanted(target)
	if !ok {
		return
	}
	if desired == a.current {
		a.desired = desired
		return
	}
	a.rescale(target, desired, reason)
}

// wanted is how many replicas there should be, and why; not ok where nobody can
// say.
func (a *autoscaler) wanted(target *reconcile.Object) (desired int64, reason string, ok bool) {
	switch {
	case a.current == 0:
		a.set("ScalingActive", false, "ScalingDisabled", "scaling is disabled since the replica count of the target is zero")
		return 0, "", true
	case a.current > a.most:
		return a.most, "Current number of replicas above Spec.MaxReplicas", true
	case a.current < a.least:
		return a.least, "Current number of replicas below Spec.MinReplicas", true
	}
	desired, name, ok := a.measured(target)
	if !ok {
		return 0, "", false
	}
	switch {
	case desired > a.current:
		reason = name + " above target"
	case desired < a.current:
		reason = "All metrics below target"
	}
	if behavior := a.spec.Object("behavior"); !behavior.IsNull() {
		return a.behave(behavior, desired), reason, true
	}
	return a.normalize(desired), reason, true
}

// measured is the most that any metric asks for. Where some fail, the rest may
// only scale up.
func (a *autoscaler) measured(target *reconcile.Object) (desired int64, name string, ok bool) {
	if selector := target.Field("spec.selector"); selector.Len() == 0 {
		a.tell("Warning", "SelectorRequired", "selector is required")
		a.set("ScalingActive", false, "InvalidSelector", "the HPA target's scale is missing a selector")
		a.tell("Warning", "FailedComputeMetricsReplicas", "selector is required")
		return 0, "", false
	}
	if all := a.sharing(); len(all) > 1 {
		why := "the target's pods are controlled by multiple HPAs: [" + strings.Join(all, " ") + "]"
		a.tell("Warning", "AmbiguousSelector", why)
		a.set("ScalingActive", false, "AmbiguousSelector", why)
		a.tell("Warning", "FailedComputeMetricsReplicas", why)
		return 0, "", false
	}
	specs := a.spec.Object("metrics").Items()
	set, said, invalid := a.pods(), a.Parent.Field(abi.FactMetrics).Items(), 0
	var first metric
	for i, spec := range specs {
		var answer sdk.Config
		if i < len(said) {
			answer = said[i]
		}
		m := a.measure(spec, answer, set)
		a.metrics = append(a.metrics, m)
		if m.failure != "" {
			a.tell("Warning", m.reason, m.cause)
			if invalid == 0 {
				first = m
			}
			invalid++
			continue
		}
		if desired == 0 || m.replicas > desired {
			desired, name = m.replicas, m.name
		}
	}
	if invalid > 0 && (invalid >= len(specs) || desired < a.current) {
		a.set("ScalingActive", false, first.reason, "the HPA was unable to compute the replica count: "+first.cause)
		a.tell("Warning", "FailedComputeMetricsReplicas", "invalid metrics ("+strconv.Itoa(invalid)+" invalid out of "+
			strconv.Itoa(len(specs))+"), first error is: "+first.failure)
		return 0, "", false
	}
	a.set("ScalingActive", true, "ValidMetricFound", "the HPA was able to successfully calculate a replica count from "+name)
	return desired, name, true
}

// sharing are the autoscalers that scale the target, this one among them; none
// where it has no pods that they could disagree about.
func (a *autoscaler) sharing() (all []string) {
	if len(a.RelatedOf("Pod")) == 0 {
		return nil
	}
	group, kind, name := named(a.spec.Object("scaleTargetRef"))
	for _, o := range a.RelatedOf("HorizontalPodAutoscaler") {
		if g, k, n := named(o.Field("spec.scaleTargetRef")); g == group && k == kind && n == name {
			all = append(all, o.Namespace+"/"+o.Name)
		}
	}
	return all
}

func (a *autoscaler) rescale(target *reconcile.Object, desired int64, reason string) {
	size := strconv.FormatInt(desired, 10)
	a.out.Patch = []reconcile.Patch{{UID: target.UID, Patch: `{"spec":{"replicas":` + size + `}}`, Subresource: "scale"}}
	a.set("AbleToScale", true, "SucceededRescale", "the HPA controller was able to update the target scale to "+size)
	a.tell("Normal", "SuccessfulRescale", "New size: "+size+"; reason: "+reason)
	if behavior := a.spec.Object("behavior"); !behavior.IsNull() {
		a.memory.scaled(behavior, a.current, desired, a.Now)
	}
	a.drop("ScaledToZero")
	a.desired, a.scaled = desired, pods.Time(a.Now)
}
