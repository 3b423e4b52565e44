package main

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-dev/berth/host/logtest"
)

// troubled is a module of policies that talk, count, and trap where a node's
// label says so.
const troubled = "../../policy/testdata/troubled"

// following runs a command beside the test until its context ends or it does.
func following(ctx context.Context, args ...string) (out *logtest.Text, ended chan error) {
	out, ended = new(logtest.Text), make(chan error, 1)
	root := newRoot()
	root.SetOut(out)
	root.SetErr(out)
	root.SetArgs(args)
	go func() { ended <- root.ExecuteContext(ctx) }()
	return out, ended
}

func TestAGuestsWordsAreFollowed(t *testing.T) {
	t.Parallel()
	kubeconfig, stop := startHost(t, t.TempDir())
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	client := schedulable(t, kubeconfig, 2, 0)
	run("policy", "push", "talks", troubled, "--entry", "Talks")
	ctx, interrupt := context.WithCancel(t.Context())
	all, interrupted := following(ctx, "policy", "logs", "talks", "-f", "--kubeconfig", kubeconfig)
	loud, ended := following(t.Context(), "policy", "logs", "talks", "-f", "--level", "warn", "--kubeconfig", kubeconfig)
	morePods(t, client, 0, 1)
	eventually(t, "all lines are followed", func() bool { return strings.Contains(all.String(), "ERROR shout") })
	for _, want := range []string{"DEBUG whisper\n", "INFO  talk\n", "WARN  warn\n"} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("logs -f lack %q:\n%s", want, all)
		}
	}
	interrupt()
	if err := <-interrupted; !errors.Is(err, context.Canceled) {
		t.Errorf("logs -f, interrupted = %v", err)
	}
	if out := run("policy", "logs", "talks", "--level", "error"); strings.Contains(out, "warn") || !strings.Contains(out, "ERROR shout") {
		t.Errorf("logs --level error:\n%s", out)
	}
	if _, err := berth(t, "policy", "logs", "talks", "--level", "loud", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), "use debug, info, warn or error") {
		t.Errorf("logs --level loud = %v", err)
	}
	if _, err := berth(t, "policy", "logs", "none", "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `there is no policy "none"`) {
		t.Errorf("logs of no policy = %v", err)
	}
	eventually(t, "the loud lines are followed", func() bool { return strings.Contains(loud.String(), "shout") })
	stop()
	if err := <-ended; err != nil || !strings.Contains(loud.String(), "the host has ended") {
		t.Errorf("logs -f at the host's end = %v\n%s", err, loud)
	}
	if strings.Contains(loud.String(), "INFO") || strings.Contains(loud.String(), "DEBUG") {
		t.Errorf("logs --level warn show less:\n%s", loud)
	}
}

// noCounters are metrics of policies that go up and down, or are histograms.
var noCounters = []string{"berth_policy_quarantined", "berth_policy_call_duration_seconds", "berth_policy_guest_memory_bytes"}

func labelsOf(m *dto.Metric) map[string]string {
	labels := map[string]string{}
	for _, l := range m.GetLabel() {
		labels[l.GetName()] = l.GetValue()
	}
	return labels
}

func metricsOf(t *testing.T, kubeconfig string) map[string]*dto.MetricFamily {
	t.Helper()
	c, err := newClient(kubeconfig, "", t.Output())
	if err != nil {
		t.Fatal(err)
	}
	text, err := c.raw(t.Context(), "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return families
}

// scrape reads /metrics as Prometheus does: the values of one policy, by metric,
// and of its own counters, by name.
func scrape(t *testing.T, kubeconfig, policy string) (values map[string]float64, counters map[string]float64, digest string) {
	t.Helper()
	values, counters = map[string]float64{}, map[string]float64{}
	for name, f := range metricsOf(t, kubeconfig) {
		if !strings.HasPrefix(name, "berth_policy_") || slices.Contains(noCounters, name) {
			continue
		}
		if f.GetType() != dto.MetricType_COUNTER || f.GetHelp() == "" || !strings.HasSuffix(name, "_total") {
			t.Errorf("%s is a %s, with the help %q", name, f.GetType(), f.GetHelp())
		}
		for _, m := range f.GetMetric() {
			labels := labelsOf(m)
			if labels["policy"] != policy {
				continue
			}
			into, key := values, name
			if own := labels["counter"]; own != "" {
				into, key = counters, own
			}
			if _, twice := into[key]; twice || labels["kind"] != "predicate" || labels["digest"] == "" {
				t.Errorf("%s stands there twice, or has the labels %v", key, labels)
			}
			into[key], digest = m.GetCounter().GetValue(), labels["digest"]
		}
	}
	return values, counters, digest
}

func TestAPolicysFiguresAreScraped(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	run := func(args ...string) string { return mustBerth(t, append(args, "--kubeconfig", kubeconfig)...) }
	client := schedulable(t, kubeconfig, 4, 0)
	label := func(node, labels string) {
		patch := []byte(`{"metadata":{"labels":` + labels + `}}`)
		if _, err := client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	label("n1", `{"keep-out":"yes"}`)
	run("policy", "push", "counting", troubled, "--entry", "Trips")
	morePods(t, client, 0, 3)
	values, counters, digest := scrape(t, kubeconfig, "counting")
	for _, name := range []string{"calls", "rows", "refusals", "fuel", "seconds"} {
		if values["berth_policy_"+name+"_total"] <= 0 {
			t.Errorf("%s is %v", name, values["berth_policy_"+name+"_total"])
		}
	}
	if values["berth_policy_traps_total"] != 0 || values["berth_policy_failures_total"] != 0 {
		t.Errorf("before any trap: %v", values)
	}
	rows := values["berth_policy_rows_total"]
	if len(counters) != 2 || counters["rows_looked_at"] != rows || counters["never"] != 0 {
		t.Errorf("the guest counted %v, the host %v rows", counters, rows)
	}

	// What was counted stays when an instance is replaced.
	label("n2", `{"trap":"panic"}`)
	if _, err := client.CoreV1().Pods("default").Create(t.Context(), onePod("waits"), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a trap is counted", func() bool {
		after, own, _ := scrape(t, kubeconfig, "counting")
		return after["berth_policy_traps_total"] > 0 && after["berth_policy_rows_total"] >= rows && own["rows_looked_at"] >= rows
	})
	if out := run("policy", "logs", "counting"); !strings.Contains(out, "pod default/waits, node n2: guest ") {
		t.Errorf("the logs do not tell of the trap:\n%s", out)
	}
	if out := run("explain", "pod", "waits"); !strings.Contains(out, "pod default/waits, node n2: guest ") {
		t.Errorf("explain does not tell of the trap:\n%s", out)
	}
	label("n2", `{"trap":null}`)

	// Another module counts from zero, under its own digest.
	run("policy", "push", "counting", gpuOnly)
	if _, own, now := scrape(t, kubeconfig, "counting"); len(own) != 0 || now == digest {
		t.Errorf("after a swap the guest's counters are %v of %s", own, now)
	}
}
