// Command bench measures Berth end to end, on the workloads of Kubernetes'
// scheduler_perf: pods are created by concurrent clients through the HTTP API,
// every policy is a sandboxed guest, every binding is synced to disk and seen
// by a watcher, and the clients' CPU counts.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/pprof"
	"text/tabwriter"

	"github.com/berth-dev/berth/host/policy/engine"
)

func main() {
	engine.ChildMain()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := bench(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func bench(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	pattern := flags.String("run", ".", "workloads to run, by regular expression")
	nodes := flags.Int("nodes", 0, "number of nodes; by default each workload's own")
	clients := flags.Int("clients", 64, "concurrent clients")
	format := flags.String("o", "table", "table or json")
	profile := flags.String("cpuprofile", "", "write a CPU profile of the measured part")
	allocs := flags.String("allocprofile", "", "write a profile of all that was allocated")
	if err := flags.Parse(args); err != nil {
		return err
	}
	wanted, err := regexp.Compile(*pattern)
	if err != nil {
		return err
	}
	var results []result
	for _, w := range workloads {
		if !wanted.MatchString(w.name) {
			continue
		}
		w = w.scaled(*nodes)
		fmt.Fprintf(os.Stderr, "%s: %d nodes, %d pods, then %d measured\n", w.name, w.nodes, w.init, w.measured)
		res, err := run(ctx, w, *clients, profiled(*profile))
		if err != nil {
			return fmt.Errorf("%s: %w", w.name, err)
		}
		results = append(results, res)
	}
	if err := writeAllocs(*allocs); err != nil {
		return err
	}
	if *format == "json" {
		return json.NewEncoder(os.Stdout).Encode(results)
	}
	return table(os.Stdout, results)
}

// profiled wraps the measured part into a profile, if a file is named.
func profiled(file string) func(func() error) error {
	return func(measured func() error) error {
		if file == "" {
			return measured()
		}
		f, err := os.Create(file)
		if err != nil {
			return err
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			return err
		}
		defer pprof.StopCPUProfile()
		return measured()
	}
}

// writeAllocs writes what was allocated so far, if a file is named.
func writeAllocs(file string) error {
	if file == "" {
		return nil
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	return pprof.Lookup("allocs").WriteTo(f, 0)
}

func table(w io.Writer, results []result) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "workload\tnodes\tinit\tmeasured\tpods/s\tp50\tp99\tCPU µs/pod\tallocs/pod\tkube-scheduler\tratio\theap MiB\tstore MiB\t")
	for _, r := range results {
		reference, ratio := "-", "-"
		if r.Reference > 0 {
			reference, ratio = fmt.Sprintf("%.0f", r.Reference), fmt.Sprintf("%.1fx", r.Ratio)
		}
		fmt.Fprintf(tw, "%s\t%d\t%d\t%d\t%.0f\t%.0f\t%.0f\t%.0f\t%.0f\t%s\t%s\t%d\t%.0f\t\n",
			r.Workload, r.Nodes, r.Init, r.Measured, r.PerSecond, r.P50, r.P99, r.CPUMicros, r.Allocs, reference, ratio, r.HeapMiB, r.StoreMiB)
	}
	return tw.Flush()
}
