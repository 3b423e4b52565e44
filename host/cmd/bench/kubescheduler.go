package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// schedulerPerf is Kubernetes' own measurement of its scheduler, as others.sh
// builds it.
const schedulerPerf = "scheduler_perf"

// upstream is a workload as scheduler_perf names it.
type upstream struct {
	// topic is the folder of its config; name is of test case and workload.
	topic, name string
}

// kubeSchedulerTimeout bounds one run, with etcd and API server.
const kubeSchedulerTimeout = 15 * time.Minute

// kubeScheduler has scheduler_perf measure a workload on this machine, now: API
// server, etcd and kube-scheduler. It returns 0 where scheduler_perf is not there.
func kubeScheduler(ctx context.Context, u upstream) (perSecond float64, err error) {
	program, err := exec.LookPath(schedulerPerf)
	if err != nil || u.name == "" {
		return 0, nil
	}
	out, err := os.MkdirTemp("", "scheduler-perf-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(out)
	configs := filepath.Join(filepath.Dir(filepath.Dir(program)), "share", schedulerPerf, u.topic)
	if u.topic == allDifferent {
		configs = filepath.Join(out, "config")
		if err := writeAllDifferent(configs); err != nil {
			return 0, err
		}
	}
	ctx, cancel := context.WithTimeout(ctx, kubeSchedulerTimeout)
	defer cancel()
	var log bytes.Buffer
	cmd := exec.CommandContext(ctx, program, "-test.run=^$", "-test.benchtime=1x", "-test.bench="+exactly("BenchmarkPerfScheduling/"+u.name), "-data-items-dir="+out)
	cmd.Dir, cmd.Stdout, cmd.Stderr = configs, &log, &log
	cmd.Env = append(os.Environ(), "KUBE_CACHE_MUTATION_DETECTOR=false")
	err = cmd.Run()
	files, _ := filepath.Glob(filepath.Join(out, "*.json"))
	for _, file := range files {
		average, readErr := schedulingThroughput(file)
		if readErr == nil {
			return average, nil
		}
		err = errors.Join(err, readErr)
	}
	return 0, fmt.Errorf("kube-scheduler: %s says nothing of %s: %w\n%s", schedulerPerf, u.name, err, tail(log.String()))
}

// allDifferent is a topic that is not scheduler_perf's own.
const allDifferent = "all different"

// writeAllDifferent writes the workload AllDifferent as scheduler_perf reads one. A
// step of it creates replicas, so each pod has a step.
func writeAllDifferent(dir string) error {
	var w workload
	for _, w = range workloads {
		if w.upstream.topic == allDifferent {
			break
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		return err
	}
	type fields map[string]any
	steps := []fields{
		{"opcode": "createNodes", "count": w.nodes},
		{"opcode": "createPods", "count": w.init, "namespace": first, "podTemplatePath": "plain.yaml"},
		{"opcode": "startCollectingMetrics", "name": second, "namespaces": []string{second}},
	}
	write := func(name string, pod *v1.Pod) error {
		data, err := yaml.Marshal(pod)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, name), data, 0o600)
	}
	if err := write("plain.yaml", plain()); err != nil {
		return err
	}
	for i := range w.measured {
		file := fmt.Sprint(i, ".yaml")
		if err := write(file, w.each(i)); err != nil {
			return err
		}
		steps = append(steps, fields{"opcode": "createPods", "count": 1, "namespace": second, "podTemplatePath": file, "skipWaitToCompletion": true})
	}
	steps = append(steps, fields{"opcode": "barrier"}, fields{"opcode": "stopCollectingMetrics"})
	name, of, _ := strings.Cut(w.upstream.name, "/")
	config, err := yaml.Marshal([]fields{{
		"name": name, "workloadTemplate": steps,
		"workloads": []fields{{"name": of, "labels": []string{"performance"}, "params": fields{}}},
	}})
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "performance-config.yaml"), config, 0o600)
}

// exactly is a pattern of the testing package that matches one name, part by part.
func exactly(name string) string {
	parts := strings.Split(name, "/")
	for i := range parts {
		parts[i] = "^" + regexp.QuoteMeta(parts[i]) + "$"
	}
	return strings.Join(parts, "/")
}

func tail(log string) string {
	const most = 2000
	return log[max(0, len(log)-most):]
}

// schedulingThroughput reads the average of a file of scheduler_perf's figures.
func schedulingThroughput(file string) (float64, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	var figures struct {
		DataItems []struct {
			Data   map[string]float64 `json:"data"`
			Labels map[string]string  `json:"labels"`
		} `json:"dataItems"`
	}
	if err := json.Unmarshal(data, &figures); err != nil {
		return 0, err
	}
	for _, item := range figures.DataItems {
		if item.Labels["Metric"] == "SchedulingThroughput" && item.Data["Average"] > 0 {
			return item.Data["Average"], nil
		}
	}
	return 0, errors.New("no throughput in " + filepath.Base(file))
}
