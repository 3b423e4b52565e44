package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
)

// benchmarked is what Go benchmarks have said: by name, then by unit.
type benchmarked map[string]map[string]float64

// goBench is a run of some benchmarks of a test binary.
type goBench struct {
	program string
	// pattern chooses them by name, in which blanks are underscores.
	pattern string
	// lasts is how long or how often each is run, as -test.benchtime says it.
	lasts string
	flags []string
	// root says that they lay rules in network namespaces of their own.
	root bool
}

// into runs the benchmarks and puts what they say beside what others have said.
func (g *goBench) into(ctx context.Context, o *options, all benchmarked) error {
	cmd := exec.CommandContext(ctx, filepath.Join(o.tools, g.program), append([]string{
		"-test.run=^$", "-test.bench=" + g.pattern, "-test.benchtime=" + g.lasts,
	}, g.flags...)...)
	var said, complained strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &complained
	// It may run itself again inside of namespaces: both end together.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s (which `./task bench` builds): %w: %s", cmd.Path, errors.Join(err, ctx.Err()), tail(said.String()+complained.String()))
	}
	found, err := parseBenchmarks(said.String())
	if err == nil && len(found) == 0 {
		err = errors.New("it measured nothing")
	}
	if err != nil {
		return fmt.Errorf("%s -test.bench=%s: %w: %s", cmd.Path, g.pattern, err, tail(said.String()+complained.String()))
	}
	for name, figures := range found {
		all[name] = figures
	}
	return nil
}

// get is what a benchmark said in a unit, no number where it said nothing.
func (b benchmarked) get(name, unit string) float64 {
	if v, ok := b[name][unit]; ok {
		return v
	}
	return math.NaN()
}

// processors is what a name ends in where the benchmark had several of them.
var processors = regexp.MustCompile(`-[0-9]+$`)

// parseBenchmarks reads the lines of results from what a test binary prints, and
// skips all others. A benchmark that ran several times has the figures of the last.
func parseBenchmarks(text string) (benchmarked, error) {
	all := benchmarked{}
	for line := range strings.Lines(text) {
		words := strings.Fields(line)
		if len(words) < 2 || !strings.HasPrefix(words[0], "Benchmark") {
			continue
		}
		if _, err := strconv.ParseUint(words[1], 10, 64); err != nil {
			continue // a sentence
		}
		figures, err := parseFigures(words[2:])
		if err != nil {
			return nil, fmt.Errorf("%s: %w", strings.TrimSpace(line), err)
		}
		all[processors.ReplaceAllString(words[0], "")] = figures
	}
	return all, nil
}

// parseFigures reads pairs of a number and its unit.
func parseFigures(words []string) (map[string]float64, error) {
	if len(words) == 0 || len(words)%2 != 0 {
		return nil, errors.New("want numbers, each with its unit")
	}
	figures := map[string]float64{}
	for i := 0; i < len(words); i += 2 {
		v, err := strconv.ParseFloat(words[i], 64)
		if err != nil {
			return nil, err
		}
		if v < 0 || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, fmt.Errorf("%s is not what anything costs", words[i])
		}
		figures[words[i+1]] = v
	}
	return figures, nil
}
