package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/berth-dev/berth/host/explain"
)

const (
	explainNodes = 5_000
	explanations = 30
	aimExplain   = 100 // ms
)

// measureExplain asks why pods wait in a cluster of 5,000 nodes.
func measureExplain(ctx context.Context, o *options) ([]table, error) {
	t := table{Name: "explain", Title: "Explaining a Pending pod in a cluster of 5,000 nodes, every policy a guest"}
	err := onRig(ctx, func(r *rig) error {
		say("explain: 5,000 nodes, 5,000 pods")
		w := workload{nodes: explainNodes, zones: []string{"zone-1", "zone-2", "zone-3"}, init: 5_000, initPod: plain}
		if err := r.prepare(ctx, w, 64); err != nil {
			return err
		}
		for _, pending := range []struct {
			name string
			pod  func() *v1.Pod
		}{{"too large for any node", tooLarge}, {"apart from all others, in a zone that is not there", nowhere}} {
			say("explain: a pod that is %s", pending.name)
			rows, err := r.explainPending(ctx, pending.name, pending.pod(), o)
			t.Rows = append(t.Rows, rows...)
			if err != nil {
				return err
			}
		}
		return nil
	})
	return []table{t}, err
}

// nowhere is a pod about which many policies have something to say.
func nowhere() *v1.Pod {
	p := apart()
	p.Namespace = first
	p.Spec.NodeSelector = map[string]string{v1.LabelTopologyZone: "zone-9"}
	p.Spec.TopologySpreadConstraints = spread(v1.DoNotSchedule)().Spec.TopologySpreadConstraints
	return p
}

func (r *rig) explainPending(ctx context.Context, name string, pod *v1.Pod, o *options) ([]row, error) {
	pod, err := r.pending(ctx, pod)
	if err != nil {
		return nil, err
	}
	client, err := r.web()
	if err != nil {
		return nil, err
	}
	defer closeWebs([]*web{client})
	path := fmt.Sprintf("/api/v1/namespaces/%s/pods/%s/explain", pod.Namespace, pod.Name)
	asked := func(query string) (times, error) {
		return repeat(explanations, func() error {
			var report explain.Report
			if err := client.doJSON(ctx, http.MethodGet, path+query, "", nil, &report); err != nil {
				return err
			}
			if report.Nodes != explainNodes || report.Feasible != 0 {
				return fmt.Errorf("%d of %d nodes can take the pod, want none of %d", report.Feasible, report.Nodes, explainNodes)
			}
			return nil
		})
	}
	var rows []row
	for _, q := range []struct{ name, query string }{{"20 nodes of the table", "?limit=20"}, {"the whole table", ""}} {
		took, err := asked(q.query)
		if err != nil {
			return rows, err
		}
		rows = append(rows, timed(name+": the API, "+q.name, took))
	}
	took, err := r.explainByCommand(ctx, pod, o)
	if err != nil {
		return rows, err
	}
	if len(took) > 0 {
		rows = append(rows, timed(name+": `berth explain`, from start to end", took))
	}
	return rows, nil
}

func timed(name string, took times) row {
	return row{Name: name}.with("p99", millis(took.at(0.99)), "ms").with("median", millis(took.at(0.5)), "ms").most(aimExplain)
}

// repeat does something often and returns how long each time took.
func repeat(n int, do func() error) (times, error) {
	var took times
	for range n {
		start := time.Now()
		if err := do(); err != nil {
			return took, err
		}
		took = append(took, time.Since(start))
	}
	return took, nil
}

// explainByCommand runs the command that users run, if it is built.
func (r *rig) explainByCommand(ctx context.Context, pod *v1.Pod, o *options) (times, error) {
	berth := filepath.Join(o.tools, "berth")
	if _, err := os.Stat(berth); errors.Is(err, os.ErrNotExist) {
		say("explain: the command is left out: there is no %s", berth)
		return nil, nil
	}
	return repeat(explanations/3, func() error {
		cmd := exec.CommandContext(ctx, berth, "explain", "pod", pod.Name, "-n", pod.Namespace, "--kubeconfig", r.kubeconfig)
		if out, err := cmd.CombinedOutput(); err != nil {
			return fmt.Errorf("berth explain: %w: %s", err, out)
		}
		return nil
	})
}

// pending creates a pod and waits until the scheduler has refused it.
func (r *rig) pending(ctx context.Context, pod *v1.Pod) (*v1.Pod, error) {
	pods := r.client.CoreV1().Pods(pod.Namespace)
	pod, err := pods.Create(ctx, pod, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	err = wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, time.Minute, true, func(ctx context.Context) (bool, error) {
		now, err := pods.Get(ctx, pod.Name, metav1.GetOptions{})
		if err != nil {
			return false, err
		}
		for _, c := range now.Status.Conditions {
			if c.Type == v1.PodScheduled && c.Status == v1.ConditionFalse {
				return true, nil
			}
		}
		return false, nil
	})
	return pod, err
}
