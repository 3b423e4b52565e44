package main

import (
	"maps"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestParseBenchmarks(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, text string
		want       benchmarked
		err        string // a part of it; empty: none
	}{
		{"nothing", "", benchmarked{}, ""},
		{"what a test binary prints", "goos: linux\npkg: x\nBenchmarkServices/30000_from_nothing-2         \t       5\t1034567890 ns/op\nPASS\n",
			benchmarked{"BenchmarkServices/30000_from_nothing": {"ns/op": 1034567890}}, ""},
		{"one processor, metrics of its own, no newline at the end", "BenchmarkUDP \t 100 \t 10012 ns/op\t 124.0 p99-µs\t 0 B/op",
			benchmarked{"BenchmarkUDP": {"ns/op": 10012, "p99-µs": 124, "B/op": 0}}, ""},
		{"two runs of one: the last counts", "BenchmarkA-8 1 5 ns/op\nBenchmarkA-8 1 0.25 ns/op\n", benchmarked{"BenchmarkA": {"ns/op": 0.25}}, ""},
		{"a hyphen that tells no processors", "BenchmarkA/p-99-16 1 5 ns/op\n", benchmarked{"BenchmarkA/p-99": {"ns/op": 5}}, ""},
		{"skipped, and what it says", "--- SKIP: BenchmarkServices\n    net_test.go:56: rules of the kernel need root\nPASS\n", benchmarked{}, ""},
		{"a name alone, and a sentence", "BenchmarkA\nBenchmarkA-2 was slow\n", benchmarked{}, ""},
		{"lines that end as on Windows", "BenchmarkA 1 5 ns/op\r\n", benchmarked{"BenchmarkA": {"ns/op": 5}}, ""},
		{"no figures", "BenchmarkA-2 1\n", nil, "BenchmarkA-2 1: want numbers"},
		{"a number without its unit", "BenchmarkA-2 1 5 ns/op 7\n", nil, "want numbers"},
		{"no number", "BenchmarkA-2 1 five ns/op\n", nil, `parsing "five"`},
		{"a number of no cost", "BenchmarkA-2 1 NaN ns/op\n", nil, "NaN is not"},
		{"less than nothing", "BenchmarkA-2 1 -5 ns/op\n", nil, "-5 is not"},
		{"too large a number", "BenchmarkA-2 1 1e999 ns/op\n", nil, "out of range"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := parseBenchmarks(tt.text)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if !maps.EqualFunc(got, tt.want, maps.Equal[map[string]float64, map[string]float64]) {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
}

func TestWhatNoBenchmarkSaidIsNoNumber(t *testing.T) {
	t.Parallel()
	b := benchmarked{"BenchmarkA": {"ns/op": 5}}
	if got := b.get("BenchmarkA", "ns/op"); got != 5 {
		t.Errorf("got %v, want 5", got)
	}
	if !math.IsNaN(b.get("BenchmarkA", "B/op")) || !math.IsNaN(b.get("BenchmarkB", "ns/op")) {
		t.Error("a figure that is not there is a number")
	}
}

// program writes a test binary's stand-in.
func program(t *testing.T, script string) *options {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.test"), []byte("#!/bin/sh\n"+script+"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	return &options{tools: dir}
}

func TestGoBenchmarksAreRun(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, script, err string
	}{
		{"all is well", `[ "$*" = "-test.run=^$ -test.bench=A -test.benchtime=3x -test.cpu=1" ] && echo "BenchmarkA 3 5 ns/op"`, ""},
		{"a test binary that fails", `echo "it broke" >&2; exit 1`, "it broke"},
		{"one that measures nothing", `echo "--- SKIP: BenchmarkA"`, "measured nothing: --- SKIP"},
		{"one that says what cannot be read", `echo "BenchmarkA 3 5"`, "want numbers"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			g, all := goBench{program: "x.test", pattern: "A", lasts: "3x", flags: []string{"-test.cpu=1"}}, benchmarked{}
			err := g.into(t.Context(), program(t, tt.script), all)
			if (err == nil) != (tt.err == "") || err != nil && !strings.Contains(err.Error(), tt.err) {
				t.Fatalf("error %v, want %q", err, tt.err)
			}
			if err == nil && all.get("BenchmarkA", "ns/op") != 5 {
				t.Errorf("got %v", all)
			}
		})
	}
	t.Run("one that is not there", func(t *testing.T) {
		t.Parallel()
		g := goBench{program: "x.test"}
		if err := g.into(t.Context(), &options{tools: t.TempDir()}, benchmarked{}); err == nil || !strings.Contains(err.Error(), "./task bench") {
			t.Errorf("error %v, want one that says who builds it", err)
		}
	})
}
