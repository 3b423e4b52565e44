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

// measuredBeside is kube-scheduler's rate for a workload, 0 where it cannot be had.
func measuredBeside(ctx context.Context, w workload, o *options) (float64, error) {
	switch {
	case w.upstream.name != "":
		return kubeScheduler(ctx, w.upstream)
	case w.each != nil:
		return onBerth(ctx, w, o)
	}
	return 0, nil
}

// kubeScheduler has scheduler_perf measure a workload on this machine, now: API
// server, etcd and kube-scheduler. It returns 0 where scheduler_perf is not there.
func kubeScheduler(ctx context.Context, u upstream) (perSecond float64, err error) {
	program, err := exec.LookPath(schedulerPerf)
	if err != nil {
		return 0, nil
	}
	out, err := os.MkdirTemp("", "scheduler-perf-")
	if err != nil {
		return 0, err
	}
	defer os.RemoveAll(out)
	configs := filepath.Join(filepath.Dir(filepath.Dir(program)), "share", schedulerPerf, u.topic)
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

// onBerth has the real kube-scheduler place a workload's pods on a host of Berth's,
// beside simulated nodes: for pods that scheduler_perf cannot make, since a step of
// it makes replicas. It returns 0 where kube-scheduler is not there.
func onBerth(ctx context.Context, w workload, o *options) (perSecond float64, err error) {
	program, err := exec.LookPath("kube-scheduler")
	if err != nil {
		return 0, nil
	}
	const theirs = "kube-scheduler"
	each, initPod := w.each, w.initPod
	w.each = func(i int) *v1.Pod { return placedBy(theirs, each(i)) }
	w.initPod = func() *v1.Pod { return placedBy(theirs, initPod()) }
	res := result{workload: w}
	err = onRig(ctx, func(r *rig) error {
		config := filepath.Join(r.dir, "kube-scheduler.yaml")
		text := fmt.Sprintf("apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"+
			"clientConnection: {kubeconfig: %s, qps: 5000, burst: 5000}\nleaderElection: {leaderElect: false}\nprofiles: [{schedulerName: %s}]\n", r.kubeconfig, theirs)
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			return err
		}
		ctx, cancel := context.WithCancel(ctx)
		// Told to be a 1.33, as in docs/compatibility.
		cmd := exec.CommandContext(ctx, program, "--config", config, "--emulated-version=1.33", "--feature-gates=WatchListClient=true",
			"--authentication-kubeconfig", r.kubeconfig, "--authorization-kubeconfig", r.kubeconfig, "--secure-port=0")
		var log bytes.Buffer
		cmd.Stdout, cmd.Stderr = &log, &log
		if err := cmd.Start(); err != nil {
			cancel()
			return err
		}
		err := r.prepare(ctx, w, o.clients)
		if err == nil {
			err = r.measure(ctx, w, o.clients, &res)
		}
		cancel()
		_ = cmd.Wait()
		if err != nil {
			err = fmt.Errorf("kube-scheduler on Berth: %w\n%s", err, tail(log.String()))
		}
		return err
	})
	return res.perSecond, err
}

func placedBy(scheduler string, p *v1.Pod) *v1.Pod {
	p.Spec.SchedulerName = scheduler
	return p
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
