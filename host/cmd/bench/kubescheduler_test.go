package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestThroughputIsReadAsSchedulerPerfWritesIt(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "BenchmarkPerfScheduling_benchmark_misc.json")
	text := `{"version":"v1","dataItems":[
		{"data":{"Average":12},"unit":"ms","labels":{"Metric":"scheduler_pod_scheduling_sli_duration_seconds"}},
		{"data":{"Average":211.5,"Perc50":210},"unit":"pods/s","labels":{"Metric":"SchedulingThroughput","event":"not applicable"}}]}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := schedulingThroughput(file); err != nil || got != 211.5 {
		t.Errorf("schedulingThroughput = %v, %v; want 211.5", got, err)
	}
	if err := os.WriteFile(file, []byte(`{"dataItems":[]}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := schedulingThroughput(file); err == nil {
		t.Error("a file without figures is no error")
	}
}

func TestABenchmarkIsNamedExactly(t *testing.T) {
	t.Parallel()
	if got, want := exactly("B/Unschedulable/5k.x"), `^B$/^Unschedulable$/^5k\.x$`; got != want {
		t.Errorf("exactly = %s, want %s", got, want)
	}
}
