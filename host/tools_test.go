package host_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/berth-dev/berth/host"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/sandbox"
	"github.com/berth-dev/berth/host/polltest"
)

// ask asks the host by path as its administrator.
func ask(t *testing.T, s host.Serving, verb, path, body string) (int, string) {
	t.Helper()
	cfg, err := clientcmd.BuildConfigFromFlags("", s.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	req, err := http.NewRequestWithContext(t.Context(), verb, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(data)
}

func askJSON(t *testing.T, s host.Serving, verb, path, body string, into any) {
	t.Helper()
	code, text := ask(t, s, verb, path, body)
	if code != http.StatusOK {
		t.Fatalf("%s %s = %d %s", verb, path, code, text)
	}
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("%s %s = %s: %v", verb, path, text, err)
	}
}

func TestFiguresTellWhatDecidedAPod(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	create(t, client, plainPod("a"))
	bound(t, client, "a")
	var all []sandbox.Figures
	askJSON(t, serving, "GET", berthapi.FiguresPath, "", &all)
	calls := map[string]int64{}
	for _, f := range all {
		calls[f.Name] = f.Calls
		if f.Failures > 0 || f.Quarantined || f.LastFailure != "" {
			t.Errorf("%s failed: %+v", f.Name, f)
		}
	}
	if calls["PodFitsResources"] == 0 {
		t.Errorf("PodFitsResources was not called: %v", calls)
	}
	var lines []sandbox.Line
	askJSON(t, serving, "GET", berthapi.FiguresPath+"/PodFitsResources/logs", "", &lines)
	if code, text := ask(t, serving, "GET", berthapi.FiguresPath+"/none/logs", ""); code != http.StatusNotFound {
		t.Errorf("logs of no policy = %d %s", code, text)
	}
	text := ""
	polltest.Until(t, "the bind is counted", func() bool { // a moment after a watch has told of it
		_, text = ask(t, serving, "GET", "/metrics", "")
		return strings.Contains(text, "berth_scheduler_bound_total 1\n")
	})
	for _, want := range []string{
		`berth_policy_calls_total{digest="sha256:`, `berth_store_objects{resource="pods"} 1`,
		`berth_store_batch_duration_seconds_bucket{le="+Inf"}`, "go_goroutines",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("/metrics lacks %q", want)
		}
	}
}

func TestADecisionIsReplayed(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	createNode(t, client, "n2")
	create(t, client, plainPod("a"))
	pod := bound(t, client, "a")
	var report explain.Report
	askJSON(t, serving, "GET", "/api/v1/namespaces/default/pods/a/explain", "", &report)
	if report.Decision == nil {
		t.Fatalf("no decision in %+v", report)
	}
	var again berthapi.Replay
	number, err := json.Marshal(report.Decision.Number)
	if err != nil {
		t.Fatal(err)
	}
	askJSON(t, serving, "GET", berthapi.DecisionsPath+"/"+string(number)+"/again", "", &again)
	if !again.Same || again.Node != pod.Spec.NodeName || again.Again != pod.Spec.NodeName || again.Pod != "a" {
		t.Errorf("replay = %+v, want %s again", again, pod.Spec.NodeName)
	}
	for path, want := range map[string]int{"/999999999/again": http.StatusNotFound, "/x/again": http.StatusBadRequest} {
		if code, text := ask(t, serving, "GET", berthapi.DecisionsPath+path, ""); code != want {
			t.Errorf("GET %s = %d %s, want %d", path, code, text, want)
		}
	}
}

func TestARecordedDecisionIsReplayedAfterARestart(t *testing.T) {
	t.Parallel()
	dir, kept := t.TempDir(), t.TempDir()
	recording := func(c *host.Config) { c.Record = kept }
	client, serving, stop := start(t, dir, recording)
	createNode(t, client, "n1")
	createNode(t, client, "n2")
	for _, name := range []string{"a", "b", "c"} {
		create(t, client, plainPod(name))
		bound(t, client, name)
	}
	var first explain.Report
	askJSON(t, serving, "GET", "/api/v1/namespaces/default/pods/a/explain", "", &first)
	stop()
	client, serving, _ = start(t, dir, recording)
	create(t, client, plainPod("d"))
	bound(t, client, "d")
	var last explain.Report
	askJSON(t, serving, "GET", "/api/v1/namespaces/default/pods/d/explain", "", &last)
	pods := map[string]bool{}
	for _, number := range []uint64{first.Decision.Number, first.Decision.Number + 1, first.Decision.Number + 2, last.Decision.Number} {
		var again berthapi.Replay
		askJSON(t, serving, "GET", fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, number), "", &again)
		if !again.Same || again.Node == "" || again.Note != "" {
			t.Errorf("replay of decision %d = %+v", number, again)
		}
		pods[again.Pod] = true
	}
	if len(pods) != 4 {
		t.Errorf("the decisions were about %v", pods)
	}
	after := last.Decision.Number + 1
	if code, text := ask(t, serving, "GET", fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, after), ""); code != http.StatusNotFound ||
		!strings.Contains(text, fmt.Sprintf("the next will be %d", after)) {
		t.Errorf("replay of what never was = %d %s", code, text)
	}
	if err := os.Remove(filepath.Join(kept, "decisions", fmt.Sprintf("%020d.jsonl", first.Decision.Number))); err != nil {
		t.Fatal(err)
	}
	if code, text := ask(t, serving, "GET", fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, first.Decision.Number), ""); code != http.StatusNotFound ||
		!strings.Contains(text, "in no recording in "+kept) {
		t.Errorf("replay of what was recorded in a file that is gone = %d %s", code, text)
	}
}

func TestAPodThatIsGoneIsExplained(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	create(t, client, plainPod("a"))
	bound(t, client, "a")
	now := int64(0)
	if err := client.CoreV1().Pods("default").Delete(t.Context(), "a", metav1.DeleteOptions{GracePeriodSeconds: &now}); err != nil {
		t.Fatal(err)
	}
	const path = "/api/v1/namespaces/default/pods/"
	var report explain.Report
	polltest.Until(t, "the pod is gone", func() bool {
		askJSON(t, serving, "GET", path+"a/explain", "", &report)
		return report.State == "gone"
	})
	if report.Node != "n1" || report.Decision == nil {
		t.Errorf("the pod that is gone is explained as %+v", report)
	}
	for what, want := range map[string]string{
		"b/explain":              `no pod default/b is known to the scheduler`,
		"a/explain?node=nowhere": `there is no node nowhere`,
	} {
		if code, text := ask(t, serving, "GET", path+what, ""); code != http.StatusNotFound || !strings.Contains(text, want) {
			t.Errorf("GET %s = %d %s, want %q", what, code, text, want)
		}
	}
	if code, text := ask(t, serving, "GET", path+"a/log", ""); code != http.StatusNotFound {
		t.Errorf("the log of a pod that is gone = %d %s", code, text)
	}
}

func TestADecisionOfAFormerRunIsNotTakenForAnother(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	client, serving, stop := start(t, dir)
	createNode(t, client, "n1")
	create(t, client, plainPod("a"))
	bound(t, client, "a")
	var report explain.Report
	askJSON(t, serving, "GET", "/api/v1/namespaces/default/pods/a/explain", "", &report)
	stop()
	client, serving, stop = start(t, dir)
	create(t, client, plainPod("b"))
	bound(t, client, "b")
	former := fmt.Sprintf("%s/%d/again", berthapi.DecisionsPath, report.Decision.Number)
	code, text := ask(t, serving, "GET", former, "")
	if code != http.StatusNotFound || !strings.Contains(text, "lies outside the log") {
		t.Errorf("replay of a decision of the former run = %d %s", code, text)
	}
	stop()
	_, serving, _ = start(t, dir, func(c *host.Config) { c.Record = t.TempDir() })
	if code, text := ask(t, serving, "GET", former, ""); code != http.StatusNotFound || !strings.Contains(text, "in no recording") {
		t.Errorf("replay of it in a run that records = %d %s", code, text)
	}
}

func TestAPlanPlacesNothing(t *testing.T) {
	t.Parallel()
	client, serving, _ := start(t, t.TempDir())
	createNode(t, client, "n1")
	list := v1.PodList{}
	for _, name := range []string{"fits", "too-big"} {
		pod := plainPod(name)
		pod.Namespace = "default"
		pod.Spec.SchedulerName = "default-scheduler"
		if name == "too-big" {
			pod.Spec.Containers[0].Resources.Requests = v1.ResourceList{"cpu": readyNode("").Status.Capacity["memory"]}
		}
		list.Items = append(list.Items, *pod)
	}
	body, err := json.Marshal(&list)
	if err != nil {
		t.Fatal(err)
	}
	var placed []explain.Placement
	askJSON(t, serving, "POST", berthapi.PlanPath, string(body), &placed)
	if len(placed) != 2 || placed[0].Node != "n1" || placed[1].Node != "" || placed[1].Message == "" {
		t.Errorf("plan = %+v", placed)
	}
	pods, err := client.CoreV1().Pods("default").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(pods.Items) != 0 {
		t.Errorf("a plan made pods: %v, %v", pods, err)
	}
	for _, bad := range []string{"", "{}", "no json"} {
		if code, text := ask(t, serving, "POST", berthapi.PlanPath, bad); code != http.StatusBadRequest {
			t.Errorf("plan of %q = %d %s", bad, code, text)
		}
	}
}

func TestToolsAreForThoseWhoMay(t *testing.T) {
	t.Parallel()
	_, serving, _ := start(t, t.TempDir())
	ca, err := clientcmd.LoadFromFile(serving.Kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	cfg := &rest.Config{Host: serving.URL}
	for _, c := range ca.Clusters {
		cfg.CAData, cfg.CAFile = c.CertificateAuthorityData, c.CertificateAuthority
	}
	client, err := rest.HTTPClientFor(cfg)
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{berthapi.FiguresPath, berthapi.BackupPath, "/metrics", berthapi.DecisionsPath + "/1/again"} {
		res, err := client.Get(serving.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != http.StatusUnauthorized && res.StatusCode != http.StatusForbidden {
			t.Errorf("GET %s without a name = %d", path, res.StatusCode)
		}
	}
}
