package controller

import (
	"context"
	"encoding/json"
	"slices"
	"sync"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/store"
)

// Metrics tells what adapters answer about the metrics that a parent names.
type Metrics interface {
	// Of is the last answer as the fact "metrics", nil where there is none to ask
	// for, and whether it is good enough for a question.
	Of(parent store.Object) (value json.RawMessage, good bool)
	// Ask gets another one, in bounded time. The selector is that of the target's
	// pods.
	Ask(ctx context.Context, parent store.Object, pods labels.Selector) error
}

// measuring are the parents whose metrics are asked for now.
type measuring struct {
	mu      sync.Mutex
	parents map[types.NamespacedName]bool
	running sync.WaitGroup
}

// begin tells whether nobody asks for a parent's yet.
func (m *measuring) begin(name types.NamespacedName) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.parents[name] {
		return false
	}
	if m.parents == nil {
		m.parents = map[types.NamespacedName]bool{}
	}
	m.parents[name] = true
	return true
}

func (m *measuring) end(name types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.parents, name)
}

// measured tells whether all is there that the guest is to be told of a parent's
// metrics. What is not there is asked for beside the workers, and the parent comes
// back when it is.
func (d *Driver) measured(ctx context.Context, name types.NamespacedName) bool {
	if d.Metrics == nil || !slices.Contains(d.parent.kind.Facts, abi.FactMetrics) {
		return true
	}
	parent, ok := d.Objects.Get(d.parent.key(name.Namespace, name.Name))
	if !ok || parent.GetDeletionTimestamp() != nil || !d.Trial.takes(parent.GetUID()) {
		return true
	}
	if _, good := d.Metrics.Of(parent); good {
		return true
	}
	if !d.measuring.begin(name) {
		return false
	}
	d.measuring.running.Go(func() {
		err := d.Metrics.Ask(ctx, parent, d.targetPods(parent))
		d.measuring.end(name)
		if err != nil {
			if ctx.Err() == nil {
				d.Log.Warn("ask for metrics", "policy", d.Guest.Name(), "parent", name.String(), "err", err)
				d.queue.AddRateLimited(name)
			}
			return
		}
		d.queue.Add(name)
	})
	return false
}

// targetPods selects the pods of the object that an autoscaler scales.
func (d *Driver) targetPods(parent store.Object) labels.Selector {
	h, ok := parent.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return labels.Nothing()
	}
	ref := &h.Spec.ScaleTargetRef
	t, ok := d.Types(ref.APIVersion, ref.Kind)
	if !ok {
		return labels.Nothing()
	}
	target, ok := d.Objects.Get(store.Key{Resource: t.Resource, Namespace: h.Namespace, Name: ref.Name})
	if !ok {
		return labels.Nothing()
	}
	return selectorAt(at(target, "spec.selector"), false)
}
