package main

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/host/policy/vet"
	"github.com/berth-dev/berth/policies-wasm/bundle"
	"github.com/berth-dev/berth/sdk/policytest"
)

func newPolicyBench() *cobra.Command {
	var from source
	var sizes []int
	var tables []string
	cmd := &cobra.Command{
		Use:   "bench [DIR|FILE.wasm]",
		Short: "Measure a policy in the sandbox, beside built-in ones",
		Long: "Takes the nodes of the policy's own tables, over and over until there are as many as --nodes\n" +
			"says, and the pods of their cases, and asks the policy about all of them as a host would.\n" +
			"ALLOCS are counted natively, over 1,000 nodes: a guest that allocates pays for it in fuel,\n" +
			"and again when its collector runs. BUDGET is the share of its fuel that the dearest question\n" +
			"about all rows took; the limits are those of the folder's policy.yaml. Beyond 100%, or where\n" +
			"a call fails, a host would refuse its answer: the bench says so, and which field raises it.\n" +
			"FUEL/ROW is by call for gates and controllers. MIB is the guest's memory.\n" +
			"\nA gate is asked about the pods of its tables, 256 in a call as by a host; a controller about\n" +
			"their parents, one in a call, for which NS/POD stands; both ALLOCS are those of a call.\n\n" +
			"A module of any language is measured by a table in YAML, as berth policy test takes it.",
		Example: "  berth policy bench\n  berth policy bench ./examples/gpu-only --nodes 1000",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if file := first(args, "."); isModuleFile(file) {
				named, err := from.tablesOf(file, tables)
				if err != nil {
					return err
				}
				done := during(cmd.ErrOrStderr(), measuring)
				t, err := benchTables(cmd.Context(), file, named, sizes)
				done()
				if err != nil {
					return err
				}
				return t.write(cmd.OutOrStdout())
			}
			if len(tables) > 0 {
				return errTables
			}
			return from.bench(cmd, first(args, "."), sizes)
		},
	}
	from.addFlags(cmd)
	cmd.Flags().IntSliceVar(&sizes, "nodes", []int{100, 5000, 100_000}, "how many nodes")
	addTableFlag(cmd, &tables)
	return cmd
}

// besides are the built-in policies that one is measured beside.
var besides = map[string][]string{
	abi.KindPredicate: {"PodFitsResources", "PodToleratesNodeTaints", "MatchNodeSelector"},
	abi.KindPriority:  {"LeastRequestedPriority", "TaintTolerationPriority", "NodeAffinityPriority"},

	abi.KindGate:       {"MinReadySeconds"},
	abi.KindController: {"ReplicaSet"},
}

// measuring is what is shown while that is done.
const measuring = "measuring"

func (s *source) bench(cmd *cobra.Command, dir string, sizes []int) error {
	ctx, out := cmd.Context(), cmd.OutOrStdout()
	if !isFolder(dir) {
		return fmt.Errorf("%s is no folder: name the one that holds the policy and its tests", dir)
	}
	if err := build.Sources(dir); err != nil {
		return err
	}
	tables, err := recorded(ctx, out, dir)
	if err != nil {
		return err
	}
	wasm, err := s.module(ctx, out, dir)
	if err != nil {
		return err
	}
	e, err := engine.New(ctx, engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	defer e.Close()
	limits, err := ownLimits(dir)
	if err != nil {
		return err
	}
	b := &bench{ctx: ctx, engine: e, sizes: sizes, limits: limits, t: newBenchTable()}
	done := during(cmd.ErrOrStderr(), measuring)
	err = b.all(wasm, tables)
	done()
	if err != nil {
		if len(b.t.rows) > 0 {
			_ = b.t.write(out) // what it could do
		}
		return err
	}
	if err := b.t.write(out); err != nil {
		return err
	}
	for _, line := range b.unfit {
		fmt.Fprintln(out, line)
	}
	return nil
}

// all measures the author's policies by their tables, and built-in ones beside them.
func (b *bench) all(wasm []byte, tables []*policytest.Recorded) error {
	kinds := map[string]*policytest.Recorded{}
	for _, r := range tables {
		kind, err := b.own(wasm, r)
		if err != nil {
			return err
		}
		kinds[kind] = r
	}
	for kind, r := range kinds {
		if err := b.builtins(kind, r); err != nil {
			return err
		}
	}
	return nil
}

// recorded runs the author's tests and returns their tables.
func recorded(ctx context.Context, out io.Writer, dir string) ([]*policytest.Recorded, error) {
	records, err := os.MkdirTemp("", "berth-bench-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(records)
	if err := testNatively(ctx, &results{out: out}, dir, "", records, policytest.Allocations+"=1"); err != nil {
		return nil, err
	}
	tables, err := readTables(records)
	if err != nil {
		return nil, err
	}
	if len(tables) == 0 {
		return nil, errors.New("a policy is measured by its tables, and no test here runs one (policytest.Run, RunGate, RunController)")
	}
	return tables, nil
}

// readTables reads the tables that tests left in a folder.
func readTables(records string) (tables []*policytest.Recorded, err error) {
	files, err := filepath.Glob(filepath.Join(records, "*.table"))
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		r := new(policytest.Recorded)
		if err := json.Unmarshal(data, r); err != nil {
			return nil, err
		}
		tables = append(tables, r)
	}
	return tables, nil
}

func newBenchTable() *table {
	return &table{head: []string{"POLICY", "NODES", "NS/ROW", "NS/POD", "FUEL/ROW", "BUDGET", "ALLOCS", "MIB"}}
}

// bench measures and fills the table.
type bench struct {
	ctx    context.Context
	engine *engine.Engine
	sizes  []int
	t      *table
	limits v1alpha1.PolicyLimits // the author's policy's own
	unfit  []string              // what says for how many nodes it would not do
}

// most is the fuel of a call within those limits.
func most(l v1alpha1.PolicyLimits) engine.Fuel {
	if l.CallMilliseconds > 0 {
		return engine.ForTime(time.Duration(l.CallMilliseconds) * time.Millisecond)
	}
	return engine.MaxBudget
}

func vettedBy(l v1alpha1.PolicyLimits) vet.Limits {
	vetted := vet.DefaultLimits()
	if l.MemoryBytes > 0 {
		vetted.MemoryBytes = l.MemoryBytes
	}
	return vetted
}

// ownLimits are those of the folder's policy.yaml.
func ownLimits(dir string) (l v1alpha1.PolicyLimits, err error) {
	own, err := readOwn(dir)
	if err == nil && own != nil && own.Spec.Limits != nil {
		l = *own.Spec.Limits
	}
	return l, err
}

// own measures the author's policy and says of what kind it is.
func (b *bench) own(wasm []byte, r *policytest.Recorded) (kind string, err error) {
	m, err := b.engine.Load(b.ctx, wasm, vettedBy(b.limits))
	if err != nil {
		return "", fmt.Errorf("a host would refuse the module: %w", err)
	}
	defer m.Close()
	p, err := about(m, r)
	if err != nil {
		return "", err
	}
	dearest := 0.0
	for _, n := range r.Allocs {
		dearest = max(dearest, n)
	}
	allocs := strconv.FormatFloat(dearest, 'f', -1, 64)
	if r.Asked != nil {
		return p.Kind, b.calls(m, p, r.Asked, allocs)
	}
	return p.Kind, b.measure(m, p, &r.Table, allocs, b.limits)
}

// about is the policy that a table is about: the first of the module where it
// names none.
func about(m *engine.Module, r *policytest.Recorded) (*abi.Policy, error) {
	manifest, err := abi.ReadManifest(m.Manifest())
	if err != nil {
		return nil, err
	}
	name := &r.Table.Policy
	if r.Asked != nil {
		name = &r.Asked.Policy
	}
	if *name == "" {
		*name = manifest.Policies[0].Name
	}
	p := manifest.Find(*name)
	if p == nil {
		return nil, fmt.Errorf("the module has no policy %s, which a table is about", *name)
	}
	return p, nil
}

// builtins measures by the same nodes and pods what the binary brings.
func (b *bench) builtins(kind string, r *policytest.Recorded) error {
	modules, err := bundle.Modules()
	if err != nil {
		return err
	}
	for _, one := range modules {
		m, err := b.engine.Load(b.ctx, one.Wasm, vet.DefaultLimits())
		if err != nil {
			return err
		}
		defer m.Close()
		manifest, err := abi.ReadManifest(m.Manifest())
		if err != nil {
			return err
		}
		for _, name := range besides[kind] {
			p := manifest.Find(name)
			if p == nil {
				continue
			}
			if err := b.builtin(m, p, r); err != nil {
				return fmt.Errorf("%s: %w", name, err)
			}
		}
	}
	return nil
}

func (b *bench) builtin(m *engine.Module, p *abi.Policy, r *policytest.Recorded) error {
	if r.Asked != nil {
		asked, err := askedOf(p, r.Asked)
		if err != nil {
			return err
		}
		return b.calls(m, p, asked, "-")
	}
	t := r.Table
	t.Policy, t.Config = p.Name, ""
	return b.measure(m, p, &t, "-", v1alpha1.PolicyLimits{})
}

func (b *bench) measure(m *engine.Module, p *abi.Policy, t *policytest.Table, allocs string, limits v1alpha1.PolicyLimits) error {
	for _, n := range b.sizes {
		c, err := t.Cluster(n)
		if err != nil {
			return err
		}
		i, err := m.Open(b.ctx, engine.OpenConfig{})
		if err != nil {
			return err
		}
		run := &benchRun{i: i, policy: p, c: c, most: most(limits)}
		err = run.all()
		i.Close()
		if err != nil {
			return fmt.Errorf("%s, of %d nodes: %w%s%s", p.Name, n, err, raisedBy(err), guestStack(err))
		}
		if run.share > 1 {
			b.unfit = append(b.unfit, fmt.Sprintf("%s would fail on %d nodes: its rows take %s of fuel each, and get %d (%s raises it)",
				p.Name, n, run.fuelPerRow(), int64(engine.QuestionBudget(n, run.most))/int64(n), callLimit))
		}
		b.t.add(p.Name, strconv.Itoa(n), run.perRow(), run.perPod(), run.fuelPerRow(),
			fmt.Sprintf("%.1f%%", 100*run.share), allocs, mebibytes(run.memory))
	}
	return nil
}

// benchTime is how long one size is measured.
const benchTime = 200 * time.Millisecond

// firstRowsOfACall are asked about before it is known what a row takes: fewer than
// a host begins with, which asks again where they were too many.
const firstRowsOfACall = 8

// The fields of a Policy that raise its limits.
const (
	callLimit   = "spec.limits.callMilliseconds"
	memoryLimit = "spec.limits.memoryBytes"
)

// raisedBy names the field that raises the limit which ended a call, if one did.
func raisedBy(err error) string {
	var f *engine.Failure
	var full *engine.MemoryQuotaError
	switch {
	case errors.As(err, &full), strings.Contains(err.Error(), "out of memory"):
		return " (" + memoryLimit + " raises it)"
	case errors.As(err, &f) && f.Kind == engine.FuelSpent:
		return " (" + callLimit + " raises it)"
	}
	return ""
}

// benchRun is one policy over one cluster.
type benchRun struct {
	i      *engine.Instance
	policy *abi.Policy
	c      *policytest.Cluster
	most   engine.Fuel // of a call about rows
	each   engine.Fuel // that a row took at most

	pods, rows, calls int64
	podTime, rowTime  time.Duration
	fuel              engine.Fuel // of calls about rows
	share             float64     // of the budget, by the dearest of them
	memory            uint64
}

// asks is what a policy of that kind is asked about rows.
func (r *benchRun) asks() engine.Func {
	if r.policy.Kind == abi.KindPriority {
		return engine.FuncScore
	}
	return engine.FuncFilter
}

// take gives the guest its config and the cluster.
func (r *benchRun) take() error {
	if _, err := r.call(engine.FuncOpen, r.c.Open, engine.OpenBudget); err != nil {
		return err
	}
	for _, batch := range r.c.Batches {
		if _, err := r.call(engine.FuncApply, batch, engine.ApplyBudget(128, len(batch), r.i.MemoryBytes(), r.c.Rows)); err != nil {
			return err
		}
	}
	return nil
}

func (r *benchRun) all() error {
	if err := r.take(); err != nil {
		return err
	}
	for until := time.Now().Add(benchTime); time.Now().Before(until); {
		for _, pod := range r.c.Pods {
			if err := r.cycle(r.asks(), pod); err != nil {
				return err
			}
		}
		if _, err := r.call(engine.FuncIdle, nil, engine.IdleBudget(r.i.MemoryBytes(), r.c.Rows)); err != nil {
			return err
		}
	}
	r.memory = r.i.MemoryBytes()
	return nil
}

func (r *benchRun) call(f engine.Func, in []byte, budget engine.Fuel) (engine.Result, error) {
	res, err := r.i.Call(f, in, budget)
	if err == nil && res.Status != abi.StatusOK && f != engine.FuncIdle {
		err = fmt.Errorf("%s: %s", f, complaint(r.i))
	}
	return res, err
}

// cycle asks about one pod and all rows.
func (r *benchRun) cycle(f engine.Func, pod []byte) error {
	budget := engine.ApplyBudget(r.c.Rows, len(pod), r.i.MemoryBytes(), r.c.Rows)
	res, err := r.call(engine.FuncPod, pod, budget)
	if err != nil {
		return err
	}
	r.pods++
	r.podTime += res.Took
	answer, err := abi.ReadPodAnswer(res.Packed)
	if err != nil || answer.Ask != abi.AskRows {
		return err
	}
	question := engine.Fuel(0)
	for from := 0; from < r.c.Rows; {
		to := min(from+r.rowsACall(), r.c.Rows)
		in := rowNumbers(from, to)
		if r.policy.ScopeOf() == abi.ScopeRow {
			budget = engine.Budget(to-from, len(in), r.i.MemoryBytes(), r.most)
		}
		res, err := r.call(f, in, budget)
		if err != nil {
			return err
		}
		r.calls, r.rows = r.calls+1, r.rows+int64(to-from)
		r.rowTime, r.fuel, question = r.rowTime+res.Took, r.fuel+res.Fuel, question+res.Fuel
		r.each = max(r.each, res.Fuel/engine.Fuel(to-from))
		from = to
	}
	if r.policy.ScopeOf() == abi.ScopeRow {
		budget = engine.QuestionBudget(r.c.Rows, r.most)
	}
	r.share = max(r.share, float64(question)/float64(budget))
	return nil
}

// rowsACall is how many rows a host asks about at once: all of a policy of scope
// set, else as many as stay within half of a call's fuel.
func (r *benchRun) rowsACall() int {
	switch {
	case r.policy.ScopeOf() != abi.ScopeRow:
		return r.c.Rows
	case r.each == 0:
		return firstRowsOfACall
	}
	memory := r.i.MemoryBytes()
	return min(engine.RowsACall(memory, r.most), max(int(engine.Most(r.most, memory)/2/r.each), 1))
}

func (r *benchRun) fuelPerRow() string {
	if r.rows == 0 {
		return "-"
	}
	return strconv.FormatInt(int64(r.fuel)/r.rows, 10)
}

func rowNumbers(from, to int) (in []byte) {
	for slot := from; slot < to; slot++ {
		in = binary.LittleEndian.AppendUint32(in, uint32(slot))
	}
	return in
}

func (r *benchRun) perRow() string {
	if r.rows == 0 {
		return "-"
	}
	return strconv.FormatFloat(float64(r.rowTime)/float64(r.rows), 'f', 1, 64)
}

func mebibytes(bytes uint64) string {
	return strconv.FormatFloat(float64(bytes)/(1<<20), 'f', 1, 64)
}

func (r *benchRun) perPod() string {
	return strconv.FormatInt(int64(r.podTime)/max(r.pods, 1), 10)
}
