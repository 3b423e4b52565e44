package wire

import (
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/abi/fb"
	"github.com/berth-dev/berth/host/schedule/snapshot"
)

// GatePod is one pod that a gate is asked about.
type GatePod struct {
	Pod       *v1.Pod
	Condition string
	Observed  []Observation
}

// retry is when a gate that failed is asked again.
const retry = 10 * time.Second

// Failed is what holds of a pod at which a gate failed: nobody knows.
func Failed(err error) abi.Readiness {
	return abi.Readiness{Status: "Unknown", Reason: "CheckerFailed", Message: abi.Text(err.Error(), abi.MaxText), RequeueAfterNanos: int64(retry)}
}

// Observation is what the host saw for a gate; At is nanoseconds since 1970.
type Observation struct {
	Name   string
	OK     bool
	Code   int32
	Detail string
	At     int64
	Fields map[string]string
}

// gateGroups come with each pod, since a gate is asked about pods, not rows.
const gateGroups = abi.Pods | abi.PodLabels | abi.PodAnnotations

// Gate writes the input of berth_gate. The answer has one entry for each pod,
// in their order.
func (e *Encoder) Gate(now int64, pods []GatePod, reads abi.Groups) []byte {
	e.reset()
	for i := range pods {
		e.push(e.gatePod(&pods[i], reads))
	}
	list := e.vector(0)
	fb.GateInputStart(e.b)
	fb.GateInputAddNow(e.b, now)
	fb.GateInputAddPods(e.b, list)
	return e.finish(fb.GateInputEnd(e.b))
}

func (e *Encoder) gatePod(g *GatePod, reads abi.Groups) offset {
	o := g.Pod
	pod := e.pod(&snapshot.Pod{Object: o}, reads&^abi.PodRequests|gateGroups)
	kind, phase := e.str(g.Condition), e.str(string(o.Status.Phase))
	node, ip := e.str(o.Spec.NodeName), e.str(o.Status.PodIP)
	conditions := e.podConditions(o.Status.Conditions)
	containers, observations := e.containers(o), e.observations(g.Observed)
	fb.GatePodStart(e.b)
	fb.GatePodAddPod(e.b, pod)
	fb.GatePodAddConditionType(e.b, kind)
	fb.GatePodAddPhase(e.b, phase)
	if o.Status.StartTime != nil {
		fb.GatePodAddStartTime(e.b, nanos(*o.Status.StartTime))
	}
	fb.GatePodAddConditions(e.b, conditions)
	fb.GatePodAddContainers(e.b, containers)
	fb.GatePodAddObservations(e.b, observations)
	fb.GatePodAddNodeName(e.b, node)
	fb.GatePodAddPodIp(e.b, ip)
	return fb.GatePodEnd(e.b)
}

func (e *Encoder) podConditions(list []v1.PodCondition) offset {
	mark := len(e.offs)
	for i := range list {
		c := &list[i]
		e.push(e.condition(string(c.Type), string(c.Status), nanos(c.LastTransitionTime)))
	}
	return e.vector(mark)
}

func (e *Encoder) containers(o *v1.Pod) offset {
	mark := len(e.offs)
	for i := range o.Status.InitContainerStatuses {
		e.push(e.container(&o.Status.InitContainerStatuses[i], true))
	}
	for i := range o.Status.ContainerStatuses {
		e.push(e.container(&o.Status.ContainerStatuses[i], false))
	}
	return e.vector(mark)
}

func (e *Encoder) container(c *v1.ContainerStatus, isInit bool) offset {
	name := e.str(c.Name)
	fb.ContainerStart(e.b)
	fb.ContainerAddName(e.b, name)
	fb.ContainerAddReady(e.b, c.Ready)
	fb.ContainerAddStarted(e.b, c.Started != nil && *c.Started)
	if c.State.Running != nil {
		fb.ContainerAddRunningSince(e.b, nanos(c.State.Running.StartedAt))
	}
	fb.ContainerAddRestarts(e.b, c.RestartCount)
	fb.ContainerAddInitContainer(e.b, isInit)
	return fb.ContainerEnd(e.b)
}

func (e *Encoder) observations(list []Observation) offset {
	mark := len(e.offs)
	for i := range list {
		o := &list[i]
		name, detail, fields := e.str(o.Name), e.str(o.Detail), e.kvs(o.Fields)
		fb.ObservationStart(e.b)
		fb.ObservationAddName(e.b, name)
		fb.ObservationAddOk(e.b, o.OK)
		fb.ObservationAddCode(e.b, o.Code)
		fb.ObservationAddDetail(e.b, detail)
		fb.ObservationAddAt(e.b, o.At)
		fb.ObservationAddFields(e.b, fields)
		e.push(fb.ObservationEnd(e.b))
	}
	return e.vector(mark)
}
