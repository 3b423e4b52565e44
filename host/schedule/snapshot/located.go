package snapshot

import (
	"maps"

	v1 "k8s.io/api/core/v1"
)

// topology are the labels of a node that its pods get as they are bound.
var topology = [...]string{v1.LabelTopologyZone, v1.LabelTopologyRegion}

// LabelsOn are a pod's labels when it is bound to the node: with the node's zone
// and region in place of its own, as Kubernetes' admission of bindings has it.
// The map is the pod's where that changes nothing.
func LabelsOn(node *v1.Node, labels map[string]string) map[string]string {
	out := labels
	copied := false
	for _, key := range topology {
		value, ok := node.Labels[key]
		if had, has := out[key]; !ok || has && had == value {
			continue
		}
		if !copied {
			out, copied = make(map[string]string, len(labels)+len(topology)), true
			for k, v := range labels {
				out[k] = v
			}
		}
		out[key] = value
	}
	return out
}

// Locator makes pods as they will be stored when they are bound. Pods of one kind on
// nodes of one zone share their labels.
type Locator struct{ known map[kindInZone]located }

// kindInZone is the hash of a pod's labels, and those of its node that it gets.
type kindInZone struct {
	hash   uint64
	labels [len(topology)]label
}

// label is the value of a label, which may be absent.
type label struct {
	value string
	has   bool
}

func labelsOf(labels map[string]string) (of [len(topology)]label) {
	for i, key := range topology {
		of[i].value, of[i].has = labels[key]
	}
	return of
}

type located struct {
	labels map[string]string
	hash   uint64
	same   bool // as the pod has them already
}

// maxLocated is how many kinds are known at most; beyond, they are forgotten all at
// once. Labels are few and short, but where somebody means harm.
const (
	maxLocated       = 1 << 10
	maxLocatedLabels = 16
)

// On is the pod as it will be stored when it is bound to the node, so that its
// place need not change when that is seen; the pod itself where it is that already.
func (l *Locator) On(node *v1.Node, p *Pod) *Pod {
	key := kindInZone{p.Hash[labelIndex], labelsOf(node.Labels)}
	to, known := l.known[key]
	if !known {
		to.labels = LabelsOn(node, p.Object.Labels)
		to.same = len(to.labels) == len(p.Object.Labels) && sameTexts(to.labels, p.Object.Labels)
	}
	on := p
	if !to.same {
		object := *p.Object
		object.Labels = to.labels
		on = &Pod{Object: &object}
		if !known {
			to.hash = hashLabels(on)
		}
		*on = *p
		on.Object, on.ref = &object, new(Ref)
		on.Hash[labelIndex] = to.hash
		on.ref.pod.Store(on)
	}
	if !known && len(to.labels) <= maxLocatedLabels {
		l.keep(key, to)
	}
	return on
}

func (l *Locator) keep(key kindInZone, to located) {
	if l.known == nil || len(l.known) >= maxLocated {
		l.known = map[kindInZone]located{}
	}
	l.known[key] = to
}

// earlierPod is a pod before it was placed: the placed one, with what it had for the
// labels that it got from its node.
type earlierPod struct {
	placed *Ref
	labels [len(topology)]label
}

func (e *earlierPod) pod() *Pod {
	object := *e.placed.Pod().Object
	object.Labels = maps.Clone(object.Labels)
	for i, key := range topology {
		if e.labels[i].has {
			object.Labels[key] = e.labels[i].value
			continue
		}
		delete(object.Labels, key)
	}
	return NewPod(&object)
}
