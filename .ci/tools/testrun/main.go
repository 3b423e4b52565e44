// Command testrun runs `go test` and shows a person how far it is: a line for
// each package that is done, what is still running when nothing was done for a
// while, the whole output of what failed, and one closing line,
// "N passed, N failed, N skipped". Its arguments are those of go test.
//
// With CI set in the environment a skipped test fails the run: a machine that
// lacks a tool has tested nothing.
//
// Where few packages failed, they are run once more, alone. A test that passes
// then is named as flaky, with the output of its failure above, and does not fail
// the run: it wants mending, not a change that has nothing to do with it held up.
// A data race is not asked twice.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	r := newReport(os.Stdout, time.Now)
	failed, err := goTest(args, r)
	if err != nil {
		return err
	}
	if again := r.again(); len(again) > 0 {
		r.print("running again, alone: " + strings.Join(again, " ") + "\n")
		second := newReport(os.Stdout, time.Now)
		stillFailed, err := goTest(r.onceMore(args), second)
		if err != nil {
			return err
		}
		if stillFailed == nil && second.failed == 0 {
			r.flaked(second)
			failed = nil
		}
	}
	return r.close(failed, os.Getenv("CI") != "")
}

// goTest runs tests and reports them; failed is how go test ended.
func goTest(args []string, r *report) (failed, err error) {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start go test: %w", err)
	}
	events, readErr := decode(out)
	tick := time.NewTicker(30 * time.Second)
	defer tick.Stop()
	for open := true; open; {
		select {
		case e, ok := <-events:
			if open = ok; ok {
				r.event(e)
			}
		case <-tick.C:
			r.waiting()
		}
	}
	failed = cmd.Wait()
	return failed, <-readErr
}
