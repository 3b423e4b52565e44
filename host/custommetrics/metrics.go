package custommetrics

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"time"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/controller/podautoscaler/metrics"
	"k8s.io/utils/lru"

	"github.com/berth-dev/berth/host/store"
)

const (
	// fresh is how long an answer is good: a little less than the time between two
	// looks of an autoscaler.
	fresh = 14 * time.Second
	// within is how long a request may take, and so the wait for a turn.
	within = 10 * time.Second
	// atOnce bounds the requests to each of the two APIs.
	atOnce = 32
	// kept bounds the answers that are remembered.
	kept = 10_000
)

var errBusy = fmt.Errorf("%d requests wait for answers already", atOnce)

// Metrics remembers what adapters answered about each autoscaler.
type Metrics struct {
	client           metrics.MetricsClient
	now              func() time.Time
	custom, external chan struct{}
	answers          *lru.Cache // of answered, by UID
}

type answered struct {
	question string
	at       time.Time
	value    json.RawMessage
}

// New makes one that asks by the client.
func New(client metrics.MetricsClient, now func() time.Time) *Metrics {
	return &Metrics{client, now, make(chan struct{}, atOnce), make(chan struct{}, atOnce), lru.New(kept)}
}

// answer is to one metric of the spec; amounts are in thousandths, as texts, since
// they may be larger than numbers of JSON hold exactly.
type answer struct {
	Error  string            `json:"error,omitempty"`
	Pods   map[string]string `json:"pods,omitempty"`
	Value  string            `json:"value,omitempty"`
	Values []string          `json:"values,omitempty"`
	// Selector is the metric's, as Kubernetes writes it in messages.
	Selector string `json:"selector,omitempty"`
}

// Of is what was answered last about a parent, as the fact "metrics" has it, and
// whether that is still good. A parent without such metrics has no fact.
func (m *Metrics) Of(parent store.Object) (value json.RawMessage, good bool) {
	question := questionOf(parent)
	if question == "" {
		return nil, true
	}
	a := m.of(parent.GetUID())
	if a.question != question {
		return nil, false
	}
	return a.value, m.now().Sub(a.at) < fresh
}

func (m *Metrics) of(uid types.UID) answered {
	found, _ := m.answers.Get(uid)
	a, _ := found.(answered)
	return a
}

// Ask asks about each metric of the parent, whose target's pods the selector
// selects, and remembers what is answered.
func (m *Metrics) Ask(ctx context.Context, parent store.Object, pods labels.Selector) error {
	h, ok := parent.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return nil
	}
	answers := make([]*answer, len(h.Spec.Metrics))
	var asking sync.WaitGroup
	for i := range h.Spec.Metrics {
		asking.Go(func() { answers[i] = m.one(ctx, h.Namespace, &h.Spec.Metrics[i], pods) })
	}
	asking.Wait()
	value, err := json.Marshal(answers)
	if err != nil || ctx.Err() != nil {
		return errors.Join(err, ctx.Err())
	}
	m.answers.Add(h.UID, answered{questionOf(h), m.now(), value})
	return nil
}

// questionOf tells one set of metrics from another; empty is none to ask for.
func questionOf(parent store.Object) string {
	h, ok := parent.(*autoscalingv2.HorizontalPodAutoscaler)
	if !ok {
		return ""
	}
	for i := range h.Spec.Metrics {
		if asked(&h.Spec.Metrics[i]) {
			text, err := json.Marshal([]any{h.Spec.ScaleTargetRef, h.Spec.Metrics})
			if err != nil {
				return ""
			}
			return string(text)
		}
	}
	return ""
}

func asked(s *autoscalingv2.MetricSpec) bool {
	return s.Type == autoscalingv2.PodsMetricSourceType && s.Pods != nil ||
		s.Type == autoscalingv2.ObjectMetricSourceType && s.Object != nil ||
		s.Type == autoscalingv2.ExternalMetricSourceType && s.External != nil
}

func (m *Metrics) one(ctx context.Context, namespace string, s *autoscalingv2.MetricSpec, pods labels.Selector) *answer {
	if !asked(s) {
		return nil
	}
	seats := m.custom
	if s.External != nil {
		seats = m.external
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	select {
	case seats <- struct{}{}:
		defer func() { <-seats }()
	case <-ctx.Done():
		return &answer{Error: errBusy.Error()}
	}
	var a answer
	var err error
	switch {
	case s.Pods != nil:
		a, err = m.pods(namespace, s.Pods, pods)
	case s.Object != nil:
		a, err = m.object(namespace, s.Object)
	default:
		a, err = m.externals(namespace, s.External)
	}
	if err != nil {
		return &answer{Error: err.Error(), Selector: a.Selector}
	}
	return &a
}

func (m *Metrics) pods(namespace string, s *autoscalingv2.PodsMetricSource, pods labels.Selector) (a answer, err error) {
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return a, err
	}
	values, _, err := m.client.GetRawMetric(s.Metric.Name, namespace, pods, selector)
	a.Pods = map[string]string{}
	for name, v := range values {
		a.Pods[name] = strconv.FormatInt(v.Value, 10)
	}
	return a, err
}

func (m *Metrics) object(namespace string, s *autoscalingv2.ObjectMetricSource) (a answer, err error) {
	a.Selector = fmt.Sprintf("%+v", s.Metric.Selector)
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return a, err
	}
	value, _, err := m.client.GetObjectMetric(s.Metric.Name, namespace, &s.DescribedObject, selector)
	a.Value = strconv.FormatInt(value, 10)
	return a, err
}

func (m *Metrics) externals(namespace string, s *autoscalingv2.ExternalMetricSource) (a answer, err error) {
	a.Selector = fmt.Sprintf("%+v", s.Metric.Selector)
	selector, err := metav1.LabelSelectorAsSelector(s.Metric.Selector)
	if err != nil {
		return a, err
	}
	values, _, err := m.client.GetExternalMetric(s.Metric.Name, namespace, selector)
	for _, v := range values {
		a.Values = append(a.Values, strconv.FormatInt(v, 10))
	}
	return a, err
}
