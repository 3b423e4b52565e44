package main

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-dev/berth/abi"
	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/build"
	"github.com/berth-dev/berth/host/policy/engine"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
	"github.com/berth-dev/berth/sdk/policytest"
)

func newPolicyTest() *cobra.Command {
	var from source
	var r results
	var tables []string
	var run string
	cmd := &cobra.Command{
		Use:   "test [DIR|FILE.wasm]",
		Short: "Run a policy's tests natively, and its tables once more as wasm",
		Long: "Runs `go test` in DIR. Each table of sdk/policytest is written down while it runs; then the\n" +
			"policy is built as wasm and asked the same in the sandbox, and about 5,000 nodes. An answer that\n" +
			"differs is an error, as is a call that fails there.\n\n" +
			"A module of any language is asked by a table: nodes, pods and answers, in YAML or a txtar\n" +
			"archive of it. See `docs/policy-life.md`, \"Tables\".",
		Example: "  berth policy test                # the policy of this folder\n  berth policy test ./examples/gpu-only --go -run plain -v\n" +
			"  berth policy test made.wasm --table made.table.yaml -o junit",
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			r.out = cmd.OutOrStdout()
			if err := r.check(); err != nil {
				return err
			}
			matching, err := regexp.Compile(run)
			if err != nil {
				return fmt.Errorf("--run: %w", err)
			}
			if file := first(args, "."); isModuleFile(file) {
				named, err := from.tablesOf(file, tables)
				if err == nil {
					err = r.testTables(cmd.Context(), file, named, matching)
				}
				return errors.Join(err, r.write())
			}
			if len(tables) > 0 {
				return errTables
			}
			return errors.Join(from.test(cmd.Context(), &r, first(args, "."), run), r.write())
		},
	}
	from.addFlags(cmd)
	addTableFlag(cmd, &tables)
	cmd.Flags().StringVar(&run, "run", "", "run the tests, or a table's cases, that match this expression")
	cmd.Flags().BoolVarP(&r.verbose, "verbose", "v", false, "tell of those that pass, too")
	cmd.Flags().StringVarP(&r.format, "output", "o", "", "print the results as json or junit")
	oneOf(cmd, "output", "json", "junit")
	return cmd
}

// addTableFlag gives cmd the flag --table.
func addTableFlag(cmd *cobra.Command, into *[]string) {
	cmd.Flags().StringArrayVarP(into, "table", "t", nil, "a table of a FILE.wasm: YAML or txtar; by default those beside it")
}

func (s *source) test(ctx context.Context, r *results, dir, run string) error {
	out := r.say()
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		return fmt.Errorf("%s is no folder: name the one that holds the policy", dir)
	}
	if err := build.Sources(dir); err != nil {
		return err
	}
	records, err := os.MkdirTemp("", "berth-test-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(records)
	wasm, err := s.builtMeanwhile(ctx, out, dir, func() error { return testNatively(ctx, r, dir, run, records) })
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(records, "*.json"))
	if err != nil {
		return err
	}
	tables, err := readTables(records)
	if err != nil {
		return err
	}
	limits, err := ownLimits(dir)
	if err != nil {
		return err
	}
	began := time.Now()
	tried, err := tryAll(ctx, wasm, limits, files, tables)
	one := result{Suite: "wasm", Name: "answers as natively", Passed: err == nil, Seconds: since(began)}
	if err != nil {
		err = atCase(err, dir)
		one.Message = err.Error()
	}
	r.all = append(r.all, one)
	if err != nil {
		return err
	}
	if len(files) == 0 {
		fmt.Fprintln(out, "as wasm: it loads; no test runs a table of sdk/policytest, so nothing was asked")
		return nil
	}
	fmt.Fprintf(out, "as wasm: it answers %s as it does natively%s\n", plural(len(files), "table"), tried)
	return nil
}

// builtMeanwhile builds the module while something else is done, which comes
// first on the screen; if that fails, the build ends with it.
func (s *source) builtMeanwhile(ctx context.Context, out io.Writer, dir string, other func() error) ([]byte, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var wasm []byte
	var failed error
	said := &later{to: out}
	built := make(chan struct{})
	go func() {
		defer close(built)
		wasm, failed = s.module(ctx, said, dir)
	}()
	if err := other(); err != nil {
		cancel()
		<-built
		return nil, err
	}
	said.now()
	<-built
	return wasm, failed
}

// later holds back what is written until its time has come.
type later struct {
	mu   sync.Mutex
	to   io.Writer
	held bytes.Buffer
	open bool
}

func (l *later) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.open {
		return l.to.Write(p)
	}
	return l.held.Write(p)
}

func (l *later) now() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.held.WriteTo(l.to)
	l.open = true
}

func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// testNatively runs the author's tests, which leave their recordings in records.
func testNatively(ctx context.Context, r *results, dir, run, records string, env ...string) error {
	out := r.say()
	tool, err := build.Stock()
	if err != nil {
		return errors.New("a policy's tests run by go test, and no Go is on PATH: install it (https://go.dev/dl)")
	}
	tmp := filepath.Join(records, "tmp")
	if err := os.Mkdir(tmp, 0o700); err != nil {
		return err
	}
	fmt.Fprintln(out, "natively, by go test:")
	args := []string{"test", "-count=1", "-parallel=1", "-run", run}
	lines := caseLines(dir)
	var events bytes.Buffer
	var to io.Writer = &withLines{to: out, lines: lines}
	if r.format != "" {
		args, to = append(args, "-json"), &events
	} else if r.verbose {
		args = append(args, "-v")
	}
	cmd := exec.Command(tool.Path, append(args, ".")...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, to, to
	cmd.Env = append(os.Environ(), policytest.Folder+"="+records, "TMPDIR="+tmp)
	cmd.Env = append(cmd.Env, env...)
	err = build.Run(ctx, cmd)
	r.fromGoTest(events.Bytes(), lines)
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return errors.New("the tests fail natively: mend the policy or its table first")
	}
	return err
}

// tryAll asks the module what the recordings say, each in a sandbox of its own,
// and about many rows; tried says so.
func tryAll(ctx context.Context, wasm []byte, limits v1alpha1.PolicyLimits, files []string, tables []*policytest.Recorded) (tried string, err error) {
	e, err := engine.New(ctx, engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return "", err
	}
	defer e.Close()
	m, err := e.Load(ctx, wasm, vettedBy(limits))
	if err != nil {
		return "", fmt.Errorf("a host would refuse the module: %w", err)
	}
	defer m.Close()
	for _, file := range files {
		if err := replayOne(ctx, m, file); err != nil {
			test, _, _ := strings.Cut(filepath.Base(file), "-")
			return "", fmt.Errorf("as wasm, %s, %w%s", test, err, guestStack(err))
		}
	}
	for _, r := range tables {
		if r.Asked != nil || len(r.Table.Cases) == 0 {
			continue
		}
		if err := tryRows(ctx, m, r, most(limits)); err != nil {
			return "", fmt.Errorf("as wasm, on %d nodes: %w%s%s", explain.TriedRows, err, raisedBy(err), guestStack(err))
		}
		tried = fmt.Sprintf(", and takes %d nodes", explain.TriedRows)
	}
	return tried, nil
}

// tryRows asks about the nodes of a table, over and over until there are as many
// as a large cluster has.
func tryRows(ctx context.Context, m *engine.Module, r *policytest.Recorded, most engine.Fuel) error {
	p, err := about(m, r)
	if err != nil {
		return err
	}
	c, err := r.Table.Cluster(explain.TriedRows)
	if err != nil {
		return err
	}
	i, err := m.Open(ctx, engine.OpenConfig{})
	if err != nil {
		return err
	}
	defer i.Close()
	run := &benchRun{i: i, policy: p, c: c, most: most}
	if err := run.take(); err != nil {
		return err
	}
	for _, pod := range c.Pods {
		if err := run.cycle(run.asks(), pod); err != nil {
			return err
		}
	}
	if run.share > 1 {
		return fmt.Errorf("a row takes %s of fuel, and gets %d (%s raises it)",
			run.fuelPerRow(), int64(engine.QuestionBudget(c.Rows, most))/int64(c.Rows), callLimit)
	}
	return nil
}

// guestStack lists the guest's functions of a trap, with source lines if the
// module has them.
func guestStack(err error) string {
	var failed *engine.Failure
	if !errors.As(err, &failed) || len(failed.Stack) == 0 {
		return ""
	}
	return "\n  in " + strings.Join(failed.Stack, "\n  of ")
}

func replayOne(ctx context.Context, m *engine.Module, file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	i, err := m.Open(ctx, engine.OpenConfig{})
	if err != nil {
		return err
	}
	defer i.Close()
	return policytest.Replay(bytes.NewReader(data), func(export string, in []byte) ([]byte, uint64, error) {
		return callGuest(i, export, in)
	})
}

// tested are the exports that a table calls.
var tested = map[string]engine.Func{
	abi.FuncOpen: engine.FuncOpen, abi.FuncApply: engine.FuncApply, abi.FuncPod: engine.FuncPod,
	abi.FuncFilter: engine.FuncFilter, abi.FuncScore: engine.FuncScore, abi.FuncExplain: engine.FuncExplain,
	abi.FuncGate: engine.FuncGate, abi.FuncReconcile: engine.FuncReconcile,
}

// complaint asks the guest for the text of its last failure.
func complaint(i *engine.Instance) string {
	r, err := i.Call(engine.FuncError, nil, engine.MaxBudget)
	if err != nil || len(r.Out) == 0 {
		return "it does not say why"
	}
	return abi.Text(string(r.Out), abi.MaxText)
}

func callGuest(i *engine.Instance, export string, in []byte) (out []byte, packed uint64, err error) {
	if export == abi.FuncReasons && len(in) == 4 {
		r, err := i.CallNumber(engine.FuncReasons, binary.LittleEndian.Uint32(in), engine.MaxBudget)
		return r.Out, 0, err
	}
	f, ok := tested[export]
	if !ok {
		return nil, 0, fmt.Errorf("no table calls %s", export)
	}
	r, err := i.Call(f, in, 10*engine.MaxBudget)
	if err == nil && r.Status != abi.StatusOK {
		err = fmt.Errorf("it refuses: %s", complaint(i))
	}
	return r.Out, r.Packed, err
}
