package main

import (
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"
)

// quiet is how long nothing may be shown before what runs is named.
const quiet = 30 * time.Second

// report gathers events and writes what a person wants to see of them.
type report struct {
	w       io.Writer
	now     func() time.Time
	shown   time.Time
	tests   map[key]*strings.Builder // output of tests that have not ended
	running map[string]map[string]time.Time
	count   map[string]int // tests passed, by package
	failing map[string]int // tests failed, by package

	packages, passed, failed, skipped int
	skips                             []string
	broken                            []string // packages that failed
	wrong                             []string // tests that failed, with their packages
	flaky                             []string // those that passed when they were run again
	unmendable                        bool     // something failed that is not run again
}

type key struct{ pkg, test string }

func newReport(w io.Writer, now func() time.Time) *report {
	return &report{
		w: w, now: now, shown: now(),
		tests:   map[key]*strings.Builder{},
		running: map[string]map[string]time.Time{},
		count:   map[string]int{},
		failing: map[string]int{},
	}
}

func (r *report) event(e event) {
	switch e.Action {
	case "build-output":
		r.print(e.Output)
	case "output":
		r.output(e)
	case "start":
		r.running[e.Package] = map[string]time.Time{}
	case "run":
		if tests := r.running[e.Package]; tests != nil {
			tests[e.Test] = r.now()
		}
	case "pass", "fail", "skip":
		if e.Test == "" {
			r.packageEnded(e)
			return
		}
		r.testEnded(e)
	}
}

// few is how many packages may fail and be run again: where more fail, it is not
// by chance.
const few = 3

// again are the packages that are worth a second run.
func (r *report) again() []string {
	if r.unmendable || len(r.broken) > few {
		return nil
	}
	return r.broken
}

// onceMore are the arguments with the packages to run again in place of all.
func (r *report) onceMore(args []string) []string {
	again := r.again()
	args = slices.DeleteFunc(slices.Clone(args), func(a string) bool {
		_, passed := r.count[a]
		return passed || strings.HasPrefix(a, "./") || slices.Contains(again, a)
	})
	return slices.Concat([]string{"-count=1"}, args, again)
}

// flaked takes what failed for flaky: all of it passed in the second run.
func (r *report) flaked(second *report) {
	for _, pkg := range r.broken {
		r.passed += second.count[pkg] - r.count[pkg]
	}
	r.skips = append(r.skips, second.skips...)
	r.skipped += second.skipped
	r.flaky, r.failed, r.broken = r.wrong, 0, nil
}

func (r *report) output(e event) {
	r.unmendable = r.unmendable || strings.Contains(e.Output, "WARNING: DATA RACE")
	if e.Package == "" {
		r.print(e.Output)
		return
	}
	k := key{e.Package, e.Test}
	if r.tests[k] == nil {
		r.tests[k] = &strings.Builder{}
	}
	r.tests[k].WriteString(e.Output)
}

func (r *report) testEnded(e event) {
	k := key{e.Package, e.Test}
	out := r.tests[k]
	delete(r.tests, k)
	delete(r.running[e.Package], e.Test)
	top := !strings.Contains(e.Test, "/")
	switch {
	case e.Action == "fail":
		r.failing[e.Package]++
		if top {
			r.failed++
			r.wrong = append(r.wrong, e.Package+" "+e.Test)
		}
		r.print(fmt.Sprintf("\n--- FAIL in %s\n%s", e.Package, out))
	case e.Action == "skip":
		r.skipped++
		r.skips = append(r.skips, fmt.Sprintf("%s %s%s", e.Package, e.Test, reason(out)))
	case top:
		r.passed++
		r.count[e.Package]++
	}
}

// reason is the line that t.Skip printed.
func reason(out *strings.Builder) string {
	if out == nil {
		return ""
	}
	for line := range strings.Lines(out.String()) {
		line = strings.TrimSpace(line)
		if line != "" && !strings.HasPrefix(line, "===") && !strings.HasPrefix(line, "---") {
			return ": " + line
		}
	}
	return ""
}

func (r *report) packageEnded(e event) {
	delete(r.running, e.Package)
	switch {
	case e.Action == "skip": // no test files
	case e.Action == "fail":
		r.packages++
		r.broken = append(r.broken, e.Package)
		r.print(r.left(e.Package))
		if r.failing[e.Package] == 0 { // it does not build, or it crashed
			r.failed++
			r.wrong = append(r.wrong, e.Package)
			r.unmendable = r.unmendable || e.FailedBuild != ""
		}
		r.print(fmt.Sprintf("FAIL %-60s %6.1fs\n", e.Package, e.Elapsed))
	default:
		r.packages++
		cached := ""
		if own := r.tests[key{e.Package, ""}]; own != nil && strings.HasSuffix(own.String(), "\t(cached)\n") {
			cached = ", cached: nothing has changed since they passed"
		}
		r.print(fmt.Sprintf("ok   %-60s %6.1fs  %d tests%s\n", e.Package, e.Elapsed, r.count[e.Package], cached))
	}
	for k := range r.tests {
		if k.pkg == e.Package {
			delete(r.tests, k)
		}
	}
}

// left is the output of a package's tests that never ended, and its own: where
// a crash or a time-out shows.
func (r *report) left(pkg string) string {
	var names []string
	for k := range r.tests {
		if k.pkg == pkg {
			names = append(names, k.test)
		}
	}
	sort.Strings(names)
	var b strings.Builder
	for _, name := range names {
		b.WriteString(r.tests[key{pkg, name}].String())
	}
	return b.String()
}

// waiting names what runs when nothing was shown for a while.
func (r *report) waiting() {
	if r.now().Sub(r.shown) < quiet {
		return
	}
	var parts []string
	for pkg, tests := range r.running {
		part := pkg
		if name, since := oldest(tests); name != "" {
			part += fmt.Sprintf(" (%s, %.0f s)", name, r.now().Sub(since).Seconds())
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		parts = []string{"the compiler"}
	}
	sort.Strings(parts)
	r.print("...  running: " + strings.Join(parts, ", ") + "\n")
}

func oldest(tests map[string]time.Time) (name string, since time.Time) {
	for n, t := range tests {
		if name == "" || t.Before(since) || t.Equal(since) && n < name {
			name, since = n, t
		}
	}
	return name, since
}

// close prints the summary and says whether the run was good.
func (r *report) close(testErr error, strict bool) error {
	for _, s := range r.skips {
		r.print("skipped: " + s + "\n")
	}
	for _, p := range r.broken {
		r.print("failed:  " + p + "\n")
	}
	for _, f := range r.flaky {
		r.print("flaky:   " + f + " failed above, and passed when it was run again: mend it\n")
	}
	var err error
	switch {
	case testErr != nil || r.failed > 0:
		err = fmt.Errorf("%d of %d packages failed", len(r.broken), r.packages)
		if len(r.broken) == 0 {
			err = fmt.Errorf("go test: %w", testErr)
		}
	case r.passed == 0:
		err = fmt.Errorf("no test ran")
	case strict && r.skipped > 0:
		err = fmt.Errorf("%d tests were skipped: in CI each test must run", r.skipped)
	}
	summary := fmt.Sprintf("%d passed, %d failed, %d skipped", r.passed, r.failed, r.skipped)
	if len(r.flaky) > 0 {
		summary += fmt.Sprintf(", %d flaky", len(r.flaky))
	}
	r.print(summary + "\n")
	return err
}

func (r *report) print(s string) {
	if s == "" {
		return
	}
	fmt.Fprint(r.w, s)
	r.shown = r.now()
}
