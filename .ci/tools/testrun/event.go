package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
)

// event is a line of `go test -json` (go doc test2json).
type event struct {
	Action     string
	Package    string
	ImportPath string // of build-output and build-fail
	Test       string
	Output     string
	Elapsed    float64 // seconds
	// FailedBuild is set where a package failed because it does not build.
	FailedBuild string
}

// decode reads events until r ends. Lines that are no event, such as what a
// tool printed in between, are passed on as output of no package.
func decode(r io.Reader) (<-chan event, <-chan error) {
	events, failed := make(chan event), make(chan error, 1)
	go func() {
		defer close(events)
		lines := bufio.NewReaderSize(r, 1<<16)
		for {
			line, err := lines.ReadBytes('\n')
			if len(line) > 0 {
				events <- parse(line)
			}
			if err == io.EOF {
				failed <- nil
				return
			}
			if err != nil {
				failed <- fmt.Errorf("read the output of go test: %w", err)
				return
			}
		}
	}()
	return events, failed
}

func parse(line []byte) event {
	var e event
	if json.Unmarshal(line, &e) != nil || e.Action == "" {
		return event{Action: "output", Output: string(line)}
	}
	return e
}
