package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/berth-dev/berth/host/explain"
	"github.com/berth-dev/berth/host/policy/engine"
	tables "github.com/berth-dev/berth/host/policy/table"
)

var errTables = errors.New("--table is of a FILE.wasm, and a folder's tables are those of its tests: leave it out, or name the module")

// tablesOf are the tables of a module: those that are named, else those beside it.
func (s *source) tablesOf(wasm string, named []string) ([]string, error) {
	if err := s.checkBuilt(wasm); err != nil {
		return nil, err
	}
	if len(named) > 0 {
		return named, nil
	}
	var beside []string
	for _, ending := range []string{"table.yaml", "*.table.yaml", "*.txtar"} {
		files, err := filepath.Glob(filepath.Join(filepath.Dir(wasm), ending))
		if err != nil {
			return nil, err
		}
		beside = append(beside, files...)
	}
	if len(beside) == 0 {
		return nil, fmt.Errorf("no table for %s: name one by --table, or put table.yaml, NAME.table.yaml or NAME.txtar beside it", wasm)
	}
	return beside, nil
}

// opened is the policy of a table in a sandbox of this process.
func opened(ctx context.Context, wasm []byte, t *tables.Table) (g *tables.Guest, release func(), err error) {
	e, err := engine.New(ctx, engine.Config{Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		return nil, nil, err
	}
	m, err := e.Load(ctx, wasm, vettedBy(t.Limits))
	if err != nil {
		_ = e.Close()
		return nil, nil, fmt.Errorf("a host would refuse the module: %w", err)
	}
	if g, err = tables.Open(m, t); err != nil {
		m.Close()
		_ = e.Close()
		return nil, nil, err
	}
	return g, func() { g.Close(); _ = e.Close() }, nil
}

// testTables asks a module of any language what tables say.
func (r *results) testTables(ctx context.Context, file string, named []string, run *regexp.Regexp) error {
	wasm, err := readModule(file)
	if err != nil {
		return err
	}
	asked := 0
	for _, name := range named {
		t, err := tables.Read(name)
		if err != nil {
			return err
		}
		n, err := r.testTable(ctx, wasm, name, t, run)
		if err != nil {
			return err
		}
		asked += n
	}
	if asked == 0 {
		return errors.New("no case was asked: is there one, and does -run match its name?")
	}
	if n := r.failed(); n > 0 {
		return fmt.Errorf("%d of %s failed", n, plural(len(r.all), "case"))
	}
	fmt.Fprintf(r.say(), "it answers %s as the tables say, and takes %d nodes\n", plural(asked, "case"), explain.TriedRows)
	return nil
}

func (r *results) testTable(ctx context.Context, wasm []byte, name string, t *tables.Table, run *regexp.Regexp) (asked int, err error) {
	g, release, err := opened(ctx, wasm, t)
	if err != nil {
		return 0, fmt.Errorf("%s: %w", name, err)
	}
	defer release()
	if len(t.Nodes) == 0 {
		return 0, fmt.Errorf("%s has no nodes", name)
	}
	for i := range t.Cases {
		c := &t.Cases[i]
		if !run.MatchString(c.Name) {
			continue
		}
		asked++
		began := time.Now()
		failures, err := g.Try(ctx, t, c)
		if err == nil && len(failures) == 0 {
			_, err = g.Ask(ctx, t.Cluster(explain.TriedRows), c)
		}
		if err != nil {
			failures = []tables.Failure{{At: c.At, Message: err.Error() + raisedBy(err) + guestStack(err)}}
		}
		for _, f := range failures {
			r.add(result{Suite: "wasm", Name: c.Name, At: f.At, Message: f.Message, Seconds: since(began)})
		}
		if len(failures) == 0 {
			r.add(result{Suite: "wasm", Name: c.Name, Passed: true, At: c.At, Seconds: since(began)})
		}
	}
	return asked, nil
}

// benchTables measures a module of any language by its tables.
func benchTables(ctx context.Context, file string, named []string, sizes []int) (*measured, error) {
	wasm, err := readModule(file)
	if err != nil {
		return nil, err
	}
	out := &measured{table{head: []string{"POLICY", "NODES", "NS/ROW", "FUEL/ROW", "BUDGET", "CALLS"}}}
	for _, name := range named {
		t, err := tables.Read(name)
		if err != nil {
			return nil, err
		}
		if len(t.Nodes) == 0 || len(t.Cases) == 0 {
			return nil, fmt.Errorf("%s has no nodes, or no cases: a policy is measured by both", name)
		}
		if err := out.measure(ctx, wasm, t, sizes); err != nil {
			return nil, fmt.Errorf("%s: %w%s%s", name, err, raisedBy(err), guestStack(err))
		}
	}
	return out, nil
}

// measured is a table that measures fill.
type measured struct{ table }

func (b *measured) measure(ctx context.Context, wasm []byte, t *tables.Table, sizes []int) error {
	for _, n := range sizes {
		g, release, err := opened(ctx, wasm, t)
		if err != nil {
			return err
		}
		err = b.size(ctx, g, t, n)
		release()
		if err != nil {
			return fmt.Errorf("of %d nodes: %w", n, err)
		}
	}
	return nil
}

// size asks the cases about n nodes for a while; the first round, in which the
// guest takes the cluster in, does not count.
func (b *measured) size(ctx context.Context, g *tables.Guest, t *tables.Table, n int) error {
	cluster := t.Cluster(n)
	round := func() error {
		for i := range t.Cases {
			if _, err := g.Ask(ctx, cluster, &t.Cases[i]); err != nil {
				return err
			}
		}
		return nil
	}
	if err := round(); err != nil {
		return err
	}
	before := g.Figures()
	for until := time.Now().Add(benchTime); time.Now().Before(until); {
		if err := round(); err != nil {
			return err
		}
	}
	is := g.Figures()
	rows := is.Rows - before.Rows
	if rows == 0 {
		b.rows = append(b.rows, []string{g.Name, strconv.Itoa(n), "-", "-", "-", strconv.FormatInt(is.Calls-before.Calls, 10)})
		return nil
	}
	fuel := float64(is.Fuel-before.Fuel) / float64(rows)
	budget := float64(engine.QuestionBudget(n, most(t.Limits))) / float64(n)
	b.rows = append(b.rows, []string{
		g.Name, strconv.Itoa(n), strconv.FormatFloat(float64(is.Time-before.Time)/float64(rows), 'f', 1, 64),
		strconv.FormatFloat(fuel, 'f', 0, 64), fmt.Sprintf("%.1f%%", 100*fuel/budget), strconv.FormatInt(is.Calls-before.Calls, 10),
	})
	return nil
}

// isModuleFile says whether a path is that of a module and no folder.
func isModuleFile(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && strings.HasSuffix(path, ".wasm")
}
