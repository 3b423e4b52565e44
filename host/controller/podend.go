package controller

import (
	"encoding/json"
	"slices"
	"strconv"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// ofStatus are the facts that follow from a status, and so may change without
// the generation.
var ofStatus = map[string]func(store.Object) (json.RawMessage, error){
	abi.FactPodEnd: podEnd, abi.FactPodRestarts: podRestarts,
}

// end is the fact "pod.end".
type end struct {
	At         *metav1.Time   `json:"at,omitempty"`
	Exits      []exit         `json:"exits,omitempty"`
	Conditions []endCondition `json:"conditions,omitempty"`
}

type exit struct {
	Container string `json:"container"`
	Code      int32  `json:"code"`
}

type endCondition struct {
	Type   v1.PodConditionType `json:"type"`
	Status v1.ConditionStatus  `json:"status"`
}

// usual are the conditions that each pod on a node has.
var usual = []v1.PodConditionType{
	v1.PodScheduled, v1.PodInitialized, v1.ContainersReady, v1.PodReady, v1.PodReadyToStartContainers,
}

func podEnd(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	var e end
	over := pod.DeletionTimestamp != nil || pod.Status.Phase == v1.PodFailed || pod.Status.Phase == v1.PodSucceeded
	if over {
		e.At = &metav1.Time{Time: endedAt(pod)}
	}
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			if t := list[i].State.Terminated; t != nil && t.ExitCode != 0 {
				e.Exits = append(e.Exits, exit{list[i].Name, t.ExitCode})
			}
		}
	}
	if pod.Status.Phase != v1.PodSucceeded {
		for i := range pod.Status.Conditions {
			if c := &pod.Status.Conditions[i]; over || !slices.Contains(usual, c.Type) {
				e.Conditions = append(e.Conditions, endCondition{c.Type, c.Status})
			}
		}
	}
	if !over && len(e.Exits)+len(e.Conditions) == 0 {
		return nil, nil
	}
	return json.Marshal(e)
}

// endedAt is when the last container ended, else when the pod ceased to be
// ready, else when it was deleted, else when it was created.
func endedAt(pod *v1.Pod) time.Time {
	last, all := lastEnd(time.Time{}, pod.Status.ContainerStatuses, nil)
	if all {
		if sidecars := sidecarsOf(pod); len(sidecars) > 0 {
			last, all = lastEnd(last, pod.Status.InitContainerStatuses, sidecars)
		}
	}
	if all && !last.IsZero() {
		return last
	}
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		if c.Type == v1.PodReady && c.Status == v1.ConditionFalse && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Time
		}
	}
	if pod.DeletionTimestamp != nil {
		grace := int64(0)
		if s := pod.DeletionGracePeriodSeconds; s != nil {
			grace = *s
		}
		return pod.DeletionTimestamp.Add(-time.Duration(grace) * time.Second)
	}
	return pod.CreationTimestamp.Time
}

// lastEnd is when the last of some containers ended; all says that each has.
func lastEnd(last time.Time, list []v1.ContainerStatus, among []string) (end time.Time, all bool) {
	for i := range list {
		if among != nil && !slices.Contains(among, list[i].Name) {
			continue
		}
		t := list[i].State.Terminated
		if t == nil || t.FinishedAt.IsZero() {
			return time.Time{}, false
		}
		if last.Before(t.FinishedAt.Time) {
			last = t.FinishedAt.Time
		}
	}
	return last, true
}

// sidecarsOf are the init containers that run beside the others.
func sidecarsOf(pod *v1.Pod) (names []string) {
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; c.RestartPolicy != nil && *c.RestartPolicy == v1.ContainerRestartPolicyAlways {
			names = append(names, c.Name)
		}
	}
	return names
}

func podRestarts(o store.Object) (json.RawMessage, error) {
	pod, ok := o.(*v1.Pod)
	if !ok {
		return nil, nil
	}
	sum := int64(0)
	for _, list := range [][]v1.ContainerStatus{pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses} {
		for i := range list {
			sum += int64(list[i].RestartCount)
		}
	}
	if sum == 0 {
		return nil, nil
	}
	return strconv.AppendInt(nil, sum, 10), nil
}
