package host

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/api/connlimit"
	"github.com/berth-dev/berth/host/controller"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/schedule"
	"github.com/berth-dev/berth/host/store"
)

// metrics answers GET /metrics.
func (h *Host) metrics() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&figures{h.loader.Figures, h.scheduler.Stats, h.store.Stats, h.recording, h.engine.MemoryBound, h.connections, h.questions.Bytes, h.Version},
	)
	r.MustRegister(h.histograms.all()...)
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// figures turns what the parts count into metrics when they are asked for.
type figures struct {
	policies  func() []sandbox.Figures
	scheduler func() schedule.Stats
	store     func() store.Stats
	recording func() (failing bool, decisions, questions uint64)
	bound     func() int64
	api       *connlimit.Listener
	questions func() int
	version   string
}

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("berth_"+name, help, labels, nil)
}

var (
	policyLabels = []string{"policy", "kind", "digest"}

	build             = described("build_info", "The host's version; always 1.", "version")
	policyCalls       = described("policy_calls_total", "Calls of a policy's guests that succeeded.", policyLabels...)
	policyFailures    = described("policy_failures_total", "Calls of a policy's guests that failed.", policyLabels...)
	policyTraps       = described("policy_traps_total", "Calls that ended in a trap, or without fuel or stack; failures too.", policyLabels...)
	policyRows        = described("policy_rows_total", "Rows that a policy's guests judged or scored.", policyLabels...)
	policyRefusals    = described("policy_refusals_total", "Rows that a predicate's guests refused.", policyLabels...)
	policyFuel        = described("policy_fuel_total", "Fuel that a policy's guests used.", policyLabels...)
	policySeconds     = described("policy_seconds_total", "Time spent in a policy's guests.", policyLabels...)
	policyDuration    = described("policy_call_duration_seconds", "How long calls of a policy's guests took that succeeded.", policyLabels...)
	policyMemory      = described("policy_guest_memory_bytes", "Memory of the policy's guest that was called last.", policyLabels...)
	policyQuarantined = described("policy_quarantined", "1 while a policy is not asked because it failed.", policyLabels...)
	guestBytes        = described("guest_memory_bytes", "Memory of all policies' guests, and their stacks.")
	guestBound        = described("guest_memory_bound_bytes", "What all policies' guests may have together, memory and stacks.")
	policyBroken      = described("policy_broken_rules_total", "Sampled answers of a controller that broke a rule: pure, idempotent.", append(policyLabels[:3:3], "rule")...)
	policyCounter     = described("policy_counter_total", "What a policy's guests count themselves.", append(policyLabels[:3:3], "counter")...)

	cycles          = described("scheduler_cycles_total", "Decisions about pods.")
	bound           = described("scheduler_bound_total", "Pods that were bound.")
	bindErrors      = described("scheduler_bind_errors_total", "Bindings that failed.")
	queued          = described("scheduler_pods", "Pods without a node, by what they wait for.", "state")
	asked           = described("controller_log_bytes", "About what the log takes by which controllers are asked again.")
	logged          = described("scheduler_log_bytes", "About what the log takes from which decisions are derived again.")
	recordFails     = described("record_failing", "1 while the disk refuses the recording of decisions or of questions to controllers.")
	recordLost      = described("record_lost_decisions_total", "Decisions that are not in the recording, because the disk refused or too much changed at once.")
	recordLostAsked = described("record_lost_questions_total", "Questions to controllers that are not in the recording, because the disk refused.")
	remembered      = described("scheduler_remembered_bytes", "About what remembered answers take.")

	connections = described("api_connections", "Connections to the API that are open.")
	refused     = described("api_connections_refused_total", "Connections to the API that were closed because there were too many.")

	revision    = described("store_revision", "The newest revision.")
	storeQueue  = described("store_queue_depth", "Commits that wait for the disk.")
	commits     = described("store_commits_total", "Commits that are on disk.")
	changes     = described("store_changes_total", "Objects changed by commits.")
	commitTime  = described("store_batch_duration_seconds", "Time from a batch's begin to its answers.")
	objects     = described("store_objects", "Objects by resource.", "resource")
	storeEvents = described("store_events", "Changes kept in memory for watches, by resource.", "resource")
)

// Describe implements prometheus.Collector.
func (f *figures) Describe(to chan<- *prometheus.Desc) { prometheus.DescribeByCollect(f, to) }

// Collect implements prometheus.Collector.
func (f *figures) Collect(to chan<- prometheus.Metric) {
	s := sink(to)
	s.gauge(build, 1, f.version)
	for _, p := range f.policies() {
		s.policy(&p)
	}
	s.gauge(guestBytes, float64(engine.GuestBytes()))
	s.gauge(guestBound, float64(f.bound()))
	s.schedulerStats(f.scheduler())
	s.storeStats(f.store())
	s.gauge(asked, float64(f.questions()))
	s.gauge(connections, float64(f.api.Open()))
	s.counter(refused, float64(f.api.Refused()))
	failing, decisions, questions := f.recording()
	s.counter(recordLost, float64(decisions))
	s.counter(recordLostAsked, float64(questions))
	if failing {
		s.gauge(recordFails, 1)
	} else {
		s.gauge(recordFails, 0)
	}
}

// cumulative are counts of calls by bucket as Prometheus wants them.
func cumulative(lasting []int64) map[float64]uint64 {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range sandbox.CallBuckets {
		sum += uint64(lasting[i])
		buckets[bound.Seconds()] = sum
	}
	return buckets
}

type sink chan<- prometheus.Metric

func (s sink) counter(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, v, labels...)
}

func (s sink) gauge(d *prometheus.Desc, v float64, labels ...string) {
	s <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, v, labels...)
}

func (s sink) policy(p *sandbox.Figures) {
	labels := []string{p.Name, p.Kind, p.Digest}
	s.counter(policyCalls, float64(p.Calls), labels...)
	s.counter(policyFailures, float64(p.Failures), labels...)
	s.counter(policyTraps, float64(p.Traps), labels...)
	s.counter(policyRows, float64(p.Rows), labels...)
	s.counter(policyRefusals, float64(p.Refusals), labels...)
	s.counter(policyFuel, float64(p.Fuel), labels...)
	s.counter(policySeconds, p.Time.Seconds(), labels...)
	s <- prometheus.MustNewConstHistogram(policyDuration, uint64(p.Calls), p.Time.Seconds(), cumulative(p.Lasting), labels...)
	for _, c := range p.Counters {
		s.counter(policyCounter, float64(c.N), append(labels[:3:3], c.Name)...)
	}
	if p.Kind == abi.KindController {
		for _, rule := range controller.Rules {
			s.counter(policyBroken, float64(p.Broken[rule]), append(labels[:3:3], rule)...)
		}
	}
	s.gauge(policyMemory, float64(p.Memory), labels...)
	quarantined := 0.0
	if p.Quarantined {
		quarantined = 1
	}
	s.gauge(policyQuarantined, quarantined, labels...)
}

func (s sink) schedulerStats(st schedule.Stats) {
	s.counter(cycles, float64(st.Cycles))
	s.counter(bound, float64(st.Bound))
	s.counter(bindErrors, float64(st.BindErrors))
	s.gauge(remembered, float64(st.RememberedBytes))
	s.gauge(logged, float64(st.LogBytes))
	for state, n := range map[string]int64{
		"active": st.Active, "backoff": st.Backoff, "waiting": st.Waiting,
		"gated": st.Gated, "assumed": st.Assumed, "unclaimed": st.Unclaimed,
	} {
		s.gauge(queued, float64(n), state)
	}
}

func (s sink) storeStats(st store.Stats) {
	s.gauge(revision, float64(st.Revision))
	s.gauge(storeQueue, float64(st.QueueDepth))
	s.counter(commits, float64(st.Commits))
	s.counter(changes, float64(st.Changes))
	s <- latency(&st)
	for name, r := range st.Resources {
		s.gauge(objects, float64(r.Objects), name)
		s.gauge(storeEvents, float64(r.Events), name)
	}
}

// latency makes the store's counts by bucket cumulative, as Prometheus wants them.
func latency(st *store.Stats) prometheus.Metric {
	buckets, sum := map[float64]uint64{}, uint64(0)
	for i, bound := range store.Buckets {
		sum += st.CommitLatency[i]
		buckets[bound.Seconds()] = sum
	}
	sum += st.CommitLatency[len(store.Buckets)]
	return prometheus.MustNewConstHistogram(commitTime, sum, st.CommitTime.Seconds(), buckets)
}
