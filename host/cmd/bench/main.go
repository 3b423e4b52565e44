// Command bench measures Berth and prints each figure beside its aim: the
// workloads of Kubernetes' scheduler_perf end to end, the cost of a decision in
// process, explain, the API and its store beside etcd's, workloads that
// controllers keep beside kube-controller-manager's, what policies
// cost, how fast they are swapped, what hostile ones do to the rest, and a node's
// services, names and network policies.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch {
	case len(os.Args) > 1 && os.Args[1] == floodProcess:
		err = floodTenant(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == podsProcess:
		err = podsMeasured(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == networkProcess:
		err = networkAgent(ctx, os.Args[2:])
	case len(os.Args) > 1 && os.Args[1] == tableProcess:
		err = bench(ctx, os.Args[2:], os.Stdout)
	default:
		err = bench(ctx, os.Args[1:], os.Stdout)
	}
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	workloads  *regexp.Regexp
	nodes      int
	clients    int
	cpuProfile string
	// tools is where the programs lie that are measured beside: berth, etcd,
	// etcdload, and the test binaries of the engine, nft, dns, isolation and cni.
	tools string
}

// measurement makes one or more tables.
type measurement struct {
	name, about string
	// lasts is about how long it takes on two idle cores.
	lasts time.Duration
	run   func(context.Context, *options) ([]table, error)
}

var measurements = []measurement{
	{"workloads", "pods/s end to end, on the workloads of scheduler_perf", 150 * time.Second, measureWorkloads},
	{"decisions", "what a decision costs in process, at 100 to 100,000 nodes; what a bind writes", 100 * time.Second, measureCycles},
	{"explain", "why a pod waits, at 5,000 nodes", 25 * time.Second, measureExplain},
	{"api", "creates, watches, lists, start and memory, beside etcd", 75 * time.Second, measureAPI},
	{"controllers", "workloads from nothing to ready, beside kube-controller-manager", 10 * time.Minute, measureControllers},
	{"swap", "a policy swapped and rolled back, idle and under load", 10 * time.Second, measureSwaps},
	{"hostile", "the API, the collector and memory while hostile modules are pushed and run", 80 * time.Second, measureHostile},
	{"flood", "what ten thousand watches and a thousand uploads of one tenant do to others", 60 * time.Second, measureFlood},
	{"pods", "pods in containers, beside runc and the CNI plugins alone; needs root", 90 * time.Second, measurePods},
	{"network", "services, names and policies of one node, beside kube-proxy; needs root", 10 * time.Minute, measureNetwork},
	{"meter", "what counting fuel costs the built-in policies", 15 * time.Second, measureMeter},
}

func bench(ctx context.Context, args []string, out io.Writer) error {
	var o options
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.Usage = func() { usage(flags) }
	pattern := flags.String("run", ".", "workloads to run, of the tables workloads and controllers, by regular expression")
	flags.IntVar(&o.nodes, "nodes", 0, "number of nodes of the workloads, and of the decisions; by default each one's own, and all sizes")
	flags.IntVar(&o.clients, "clients", 64, "concurrent clients of the workloads")
	format := flags.String("o", "text", "text, markdown or json")
	flags.StringVar(&o.cpuProfile, "cpuprofile", "", "write a CPU profile of the workload or the decisions measured last, or of a flood of events")
	allocs := flags.String("allocprofile", "", "write a profile of all that was allocated")
	flags.StringVar(&o.tools, "tools", ".build", "folder of the programs that are measured beside: berth, etcd, etcdload, and the test binaries engine, nft, dns, isolation and cni")
	if err := flags.Parse(args); err != nil {
		return err
	}
	write, ok := writers[*format]
	if !ok {
		return fmt.Errorf("-o %s: want text, markdown or json", *format)
	}
	var err error
	if o.workloads, err = regexp.Compile(*pattern); err != nil {
		return err
	}
	chosen, err := choose(flags.Args())
	if err != nil {
		return err
	}
	var tables []table
	var failed error
	if len(chosen) == 1 {
		tables, failed = measure(ctx, chosen[0], &o)
	} else {
		tables, failed = measureApart(ctx, chosen, args[:len(args)-flags.NArg()])
	}
	return errors.Join(write(out, tables), writeAllocs(*allocs), failed)
}

func usage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprintln(w, "usage: bench [FLAGS] [TABLE]...\n\nTables, all by default, with how long each takes on two idle cores:")
	var sum time.Duration
	for _, m := range measurements {
		fmt.Fprintf(w, "  %-11s %4.0f s  %s\n", m.name, m.lasts.Seconds(), m.about)
		sum += m.lasts
	}
	fmt.Fprintf(w, "  %-11s %4.0f s\n\nFlags:\n", "together", sum.Seconds())
	flags.PrintDefaults()
}

// choose returns the measurements of those names, all for none.
func choose(names []string) ([]measurement, error) {
	if len(names) == 0 {
		return measurements, nil
	}
	var chosen []measurement
	for _, name := range names {
		i := slices.IndexFunc(measurements, func(m measurement) bool { return m.name == name })
		if i < 0 {
			var known []string
			for _, m := range measurements {
				known = append(known, m.name)
			}
			return nil, fmt.Errorf("there is no table %q: there are %s", name, strings.Join(known, ", "))
		}
		chosen = append(chosen, measurements[i])
	}
	return chosen, nil
}

// measure makes one measurement. One that fails may have made some of its tables.
func measure(ctx context.Context, m measurement, o *options) ([]table, error) {
	say("%s: %s (about %.0f s on two idle cores)", m.name, m.about, m.lasts.Seconds())
	began := time.Now()
	tables, err := m.run(ctx, o)
	if err != nil {
		return tables, fmt.Errorf("%s: %w", m.name, err)
	}
	say("%s: done in %.0f s", m.name, time.Since(began).Seconds())
	return tables, nil
}

// settle gives back what a part of a measurement leaves, so that the next one does
// not pay for it.
func settle() {
	runtime.GC()
	runtime.GC()
}

// say tells what is going on, beside the tables.
func say(format string, args ...any) { fmt.Fprintf(os.Stderr, "bench: "+format+"\n", args...) }

var writers = map[string]func(io.Writer, []table) error{
	"text": func(w io.Writer, tables []table) error {
		for i := range tables {
			if err := tables[i].writeText(w); err != nil {
				return err
			}
		}
		return nil
	},
	"markdown": func(w io.Writer, tables []table) error {
		for i := range tables {
			if err := tables[i].writeMarkdown(w); err != nil {
				return err
			}
		}
		return nil
	},
	"json": writeJSON,
}

// writeJSON prints all tables as one object, with where they were measured.
func writeJSON(w io.Writer, tables []table) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(struct {
		At     time.Time `json:"at"`
		CPUs   int       `json:"cpus"`
		Go     string    `json:"go"`
		Load   string    `json:"load,omitempty"`
		Tables []table   `json:"tables"`
	}{time.Now().UTC(), runtime.NumCPU(), runtime.Version(), load(), tables})
}

// load is the machine's load average: figures taken on a busy one are worth little.
func load() string {
	data, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(data))
}
