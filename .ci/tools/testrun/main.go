// Command testrun runs `go test` and shows a person how far it is: a line for
// each package that is done, what is still running when nothing was done for a
// while, the whole output of what failed, and one closing line,
// "N passed, N failed, N skipped". Its arguments are those of go test.
//
// With CI set in the environment a skipped test fails the run: a machine that
// lacks a tool has tested nothing.
package main

import (
	"fmt"
	"os"
	"os/exec"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "testrun:", err)
		os.Exit(1)
	}
}

func run(args []string) error {
	cmd := exec.Command("go", append([]string{"test", "-json"}, args...)...)
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start go test: %w", err)
	}

	r := newReport(os.Stdout, time.Now)
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
	waitErr := cmd.Wait()
	if err := <-readErr; err != nil {
		return err
	}
	return r.close(waitErr, os.Getenv("CI") != "")
}
