package main

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const aimMeter = 15 // %

// measureMeter has the engine's own benchmark compare calls with and without
// the meter.
func measureMeter(ctx context.Context, o *options) ([]table, error) {
	cmd := exec.CommandContext(ctx, filepath.Join(o.tools, "engine.test"), "-test.run=^$", "-test.bench=^BenchmarkMeter$", "-test.benchtime=60ms", "-test.count=3")
	out, err := cmd.CombinedOutput()
	if err != nil {
		return nil, fmt.Errorf("%s (which `./task bench` builds): %w: %s", cmd.Path, err, out)
	}
	t := table{Name: "meter", Title: "What counting fuel costs the built-in policies: a call over 1,000 rows, the median of three"}
	t.Rows = readMeter(string(out))
	if len(t.Rows) == 0 {
		return nil, fmt.Errorf("the benchmark of the meter gave nothing: %s", out)
	}
	return []table{t}, nil
}

// readMeter reads lines such as "BenchmarkMeter/HostName-2 100 8.4 meter-% 6.8
// plain-ns/row" and keeps the median of several. The aim is for "all" together.
func readMeter(out string) []row {
	costs, plain := map[string][]float64{}, map[string][]float64{}
	var names []string
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		name, ok := strings.CutPrefix(line, "BenchmarkMeter/")
		if !ok || len(fields) != 6 || fields[3] != "meter-%" || fields[5] != "plain-ns/row" {
			continue
		}
		cost, err := strconv.ParseFloat(fields[2], 64)
		bare, err2 := strconv.ParseFloat(fields[4], 64)
		if err != nil || err2 != nil {
			continue
		}
		name, _, _ = strings.Cut(strings.Fields(name)[0], "-")
		if costs[name] == nil {
			names = append(names, name)
		}
		costs[name], plain[name] = append(costs[name], cost), append(plain[name], bare)
	}
	var rows []row
	for _, name := range names {
		r := row{Name: name}.with("cost", median(costs[name]), "%").with("unmetered", median(plain[name]), "ns/row")
		if name == "all" {
			r.Name = "all together"
			r = r.most(aimMeter)
		}
		rows = append(rows, r)
	}
	return rows
}

func median(of []float64) float64 {
	slices.Sort(of)
	return of[len(of)/2]
}
