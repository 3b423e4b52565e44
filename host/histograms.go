package host

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/auth/view"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/store"
)

// histograms are of what lasts, under Kubernetes' names where it has them.
type histograms struct {
	decision, request *prometheus.HistogramVec
	start             prometheus.Histogram
}

func newHistograms() *histograms {
	histogram := func(name, help string, buckets []float64) prometheus.HistogramOpts {
		return prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}
	}
	return &histograms{
		decision: prometheus.NewHistogramVec(histogram("scheduler_scheduling_attempt_duration_seconds", "How long a decision about a pod took.",
			prometheus.ExponentialBuckets(0.0001, 2, 15)), []string{"result"}),
		request: prometheus.NewHistogramVec(histogram("apiserver_request_duration_seconds", "How long a request took until its answer was written.",
			[]float64{0.001, 0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1, 1.5, 2, 5, 10, 30, 60}), []string{"verb", "group", "resource", "subresource", "code"}),
		start: prometheus.NewHistogram(histogram("berth_pod_start_duration_seconds", "From a pod's creation until it is Running.",
			[]float64{0.1, 0.25, 0.5, 1, 2, 3, 5, 10, 20, 30, 60, 120, 300, 600})),
	}
}

func (h *histograms) all() []prometheus.Collector {
	return []prometheus.Collector{h.decision, h.request, h.start}
}

// results are what kube-scheduler calls the outcomes.
var results = map[schedule.Outcome]string{schedule.Placed: "scheduled", schedule.Refused: "unschedulable", schedule.Failed: "error", schedule.Provisions: "scheduled"}

func (h *histograms) decided(outcome schedule.Outcome, took time.Duration) {
	if result, ok := results[outcome]; ok {
		h.decision.WithLabelValues(result).Observe(took.Seconds())
	}
}

// answered counts an answer. Watches and streams last as long as somebody wants.
// What is no resource of the API is named by nothing, lest strangers name it.
func (h *histograms) answered(a *api.Audited) {
	about := a.About
	switch {
	case about.Verb == "watch" || about.Verb == "connect":
		return
	case !about.IsResourceRequest:
		h.request.WithLabelValues("", "", "", "", strconv.Itoa(a.Code)).Observe(a.Took.Seconds())
		return
	}
	h.request.WithLabelValues(about.Verb, about.APIGroup, about.Resource, about.Subresource, strconv.Itoa(a.Code)).Observe(a.Took.Seconds())
}

// watchStarts measures the starts of pods that were created while the host runs.
func (h *Host) watchStarts(ctx context.Context) error {
	for {
		watch, err := h.store.Watch(view.Pods, "", h.store.Revision())
		begun := map[types.UID]time.Time{}
		for err == nil {
			var events []store.Event
			if events, err = watch.Next(ctx); err == nil {
				for i := range events {
					h.histograms.follow(begun, &events[i], h.Now())
				}
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		if !errors.Is(err, store.ErrCompacted) {
			return err
		}
	}
}

// follow notes when pods came that have not started yet.
func (h *histograms) follow(begun map[types.UID]time.Time, e *store.Event, now time.Time) {
	pod, ok := e.Object.(*v1.Pod)
	if !ok {
		return
	}
	since, waits := begun[pod.UID]
	switch {
	case e.Type == store.Deleted:
		delete(begun, pod.UID)
	case pod.Status.Phase == "" || pod.Status.Phase == v1.PodPending:
		if !waits && e.Type == store.Added {
			begun[pod.UID] = now
		}
	case waits:
		delete(begun, pod.UID)
		if pod.Status.Phase == v1.PodRunning {
			h.start.Observe(now.Sub(since).Seconds())
		}
	}
}
