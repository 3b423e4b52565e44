package host_test

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	"github.com/prometheus/common/model"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// What lasts is measured, under names as Prometheus and Kubernetes have them.
func TestMetricsAreMeasuredAndNamedWell(t *testing.T) {
	t.Parallel()
	admin, serving, _ := start(t, t.TempDir())
	node := &v1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	node.Status.Allocatable = v1.ResourceList{"pods": resource.MustParse("10"), "cpu": resource.MustParse("4"), "memory": resource.MustParse("4Gi")}
	node.Status.Conditions = []v1.NodeCondition{{Type: v1.NodeReady, Status: v1.ConditionTrue}}
	if _, err := admin.CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	pod := &v1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: v1.PodSpec{Containers: []v1.Container{{Name: "c", Image: "c"}}}}
	if _, err := admin.CoreV1().Pods("default").Create(t.Context(), pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	waitFor(t, serving, "/metrics", `scheduler_scheduling_attempt_duration_seconds_count{result="scheduled"} 1`)
	if _, err := admin.CoreV1().Pods("default").Patch(t.Context(), "p", "application/merge-patch+json", []byte(`{"status":{"phase":"Running"}}`), metav1.PatchOptions{}, "status"); err != nil {
		t.Fatal(err)
	}
	waitFor(t, serving, "/metrics", "berth_pod_start_duration_seconds_count 1")
	_, text := ask(t, serving, "GET", "/metrics", "")
	for _, want := range []string{
		`apiserver_request_duration_seconds_count{code="201",group="",resource="pods",subresource="",verb="create"} 1`,
		`berth_policy_call_duration_seconds_bucket{digest="sha256:`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %s", want)
		}
	}
	problems, err := promlint.New(strings.NewReader(text)).Lint()
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") {
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	if err != nil {
		t.Error(err)
	}
	alertsAndDashboard(t, text)
}

// alertsAndDashboard holds what stands in docs against the metrics that there are.
func alertsAndDashboard(t *testing.T, text string) {
	t.Helper()
	there := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^([a-z_0-9]+)[{ ]`).FindAllStringSubmatch(text, -1) {
		there[m[1]] = true
	}
	metric := regexp.MustCompile(`\b(?:berth|scheduler|apiserver|process|go)_[a-z_0-9]+`)
	check := func(where, expr string) {
		for _, name := range metric.FindAllString(expr, -1) {
			if !there[name] {
				t.Errorf("%s asks for %s, and there is no such metric", where, name)
			}
		}
		if strings.Count(expr, "(") != strings.Count(expr, ")") || !metric.MatchString(expr) {
			t.Errorf("%s: %s is no expression", where, expr)
		}
	}
	alertRules(t, check)
	dashboard(t, check)
}

// alertRules holds that each alert is whole, and once there.
func alertRules(t *testing.T, check func(where, expr string)) {
	t.Helper()
	var rules struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	if err := yaml.UnmarshalStrict(file(t, "../docs/alerts.yaml"), &rules); err != nil {
		t.Fatal(err)
	}
	alerts := map[string]bool{}
	for _, g := range rules.Groups {
		for _, r := range g.Rules {
			check(r.Alert, r.Expr)
			if d, err := model.ParseDuration(r.For); err != nil || time.Duration(d) <= 0 || alerts[r.Alert] || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
				t.Errorf("%s is not whole, or twice: for %q (%v)", r.Alert, r.For, err)
			}
			alerts[r.Alert] = true
		}
	}
	if len(alerts) == 0 {
		t.Error("docs has no alerts")
	}
}

func dashboard(t *testing.T, check func(where, expr string)) {
	t.Helper()
	var board struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(file(t, "../docs/dashboard.json"), &board); err != nil {
		t.Fatal(err)
	}
	for _, p := range board.Panels {
		for _, target := range p.Targets {
			check(p.Title, target.Expr)
		}
	}
	if len(board.Panels) == 0 {
		t.Error("docs has no panels")
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}
