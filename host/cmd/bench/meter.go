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
	pairs := readMeter(string(out))
	if len(pairs) == 0 {
		return nil, fmt.Errorf("the benchmark of the meter gave nothing: %s", out)
	}
	t := table{Name: "meter", Title: "What counting fuel costs the built-in policies: a call over 1,000 rows, the best of three"}
	var with, without float64
	for _, p := range pairs {
		with, without = with+p.with, without+p.without
		t.Rows = append(t.Rows, p.row())
	}
	sum := meterPair{name: "all together", with: with, without: without}
	t.Rows = append(t.Rows, sum.row().most(aimMeter))
	return []table{t}, nil
}

// meterPair is one policy's time a call, in ns.
type meterPair struct {
	name          string
	with, without float64
}

func (p *meterPair) row() row {
	return row{Name: p.name}.with("cost", 100*(p.with/p.without-1), "%").
		with("metered", p.with/1000, "µs").with("unmetered", p.without/1000, "µs")
}

// readMeter reads lines such as "BenchmarkMeter/HostName/with-2 100 1234 ns/op"
// and keeps the best of several.
func readMeter(out string) []meterPair {
	best := map[string]map[string]float64{}
	for line := range strings.Lines(out) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[3] != "ns/op" {
			continue
		}
		parts := strings.Split(fields[0], "/")
		v, err := strconv.ParseFloat(fields[2], 64)
		if len(parts) != 3 || err != nil {
			continue
		}
		side, _, _ := strings.Cut(parts[2], "-")
		if best[parts[1]] == nil {
			best[parts[1]] = map[string]float64{}
		}
		if old, ok := best[parts[1]][side]; !ok || v < old {
			best[parts[1]][side] = v
		}
	}
	var pairs []meterPair
	for name, sides := range best {
		if sides["with"] > 0 && sides["without"] > 0 {
			pairs = append(pairs, meterPair{name, sides["with"], sides["without"]})
		}
	}
	slices.SortFunc(pairs, func(a, b meterPair) int { return strings.Compare(a.name, b.name) })
	return pairs
}
