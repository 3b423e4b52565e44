package main

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what became of one test.
type result struct {
	// Suite is native for go test, and wasm in the sandbox.
	Suite  string `json:"suite"`
	Name   string `json:"name"`
	Passed bool   `json:"passed"`
	// At is the author's line, as FILE:LINE.
	At      string  `json:"at,omitempty"`
	Message string  `json:"message,omitempty"`
	Seconds float64 `json:"seconds"`
}

// results are written as they come, or together for programs.
type results struct {
	out     io.Writer
	format  string // empty, json or junit
	verbose bool
	all     []result
}

func (r *results) check() error {
	if r.format != "" && r.format != "json" && r.format != "junit" {
		return fmt.Errorf("-o %s: use json or junit, or leave it out", r.format)
	}
	return nil
}

// say is where to print what people read.
func (r *results) say() io.Writer {
	if r.format != "" {
		return io.Discard
	}
	return r.out
}

func (r *results) add(one result) {
	r.all = append(r.all, one)
	at := one.At
	if at != "" {
		at += ": "
	}
	switch {
	case !one.Passed:
		fmt.Fprintf(r.say(), "%s%s: %s\n", at, one.Name, one.Message)
	case r.verbose:
		fmt.Fprintf(r.say(), "ok   %s (%.2fs)\n", one.Name, one.Seconds)
	}
}

func (r *results) failed() (n int) {
	for i := range r.all {
		if !r.all[i].Passed {
			n++
		}
	}
	return n
}

type junitSuites struct {
	XMLName xml.Name     `xml:"testsuites"`
	Suites  []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	Name     string      `xml:"name,attr"`
	Tests    int         `xml:"tests,attr"`
	Failures int         `xml:"failures,attr"`
	Time     string      `xml:"time,attr"`
	Cases    []junitCase `xml:"testcase"`
}

type junitCase struct {
	Name    string        `xml:"name,attr"`
	Class   string        `xml:"classname,attr"`
	File    string        `xml:"file,attr,omitempty"`
	Line    string        `xml:"line,attr,omitempty"`
	Time    string        `xml:"time,attr"`
	Failure *junitFailure `xml:"failure,omitempty"`
}

type junitFailure struct {
	Message string `xml:"message,attr"`
	Text    string `xml:",chardata"`
}

// write prints all for programs.
func (r *results) write() error {
	switch r.format {
	case "json":
		enc := json.NewEncoder(r.out)
		enc.SetIndent("", "    ")
		if r.all == nil {
			r.all = []result{}
		}
		return enc.Encode(r.all)
	case "junit":
		fmt.Fprint(r.out, xml.Header)
		enc := xml.NewEncoder(r.out)
		enc.Indent("", "  ")
		if err := enc.Encode(junit(r.all)); err != nil {
			return err
		}
		_, err := fmt.Fprintln(r.out)
		return err
	}
	return nil
}

func junit(all []result) junitSuites {
	var suites junitSuites
	at, spent := map[string]int{}, map[string]float64{}
	for _, one := range all {
		k, ok := at[one.Suite]
		if !ok {
			k = len(suites.Suites)
			at[one.Suite] = k
			suites.Suites = append(suites.Suites, junitSuite{Name: one.Suite})
		}
		s := &suites.Suites[k]
		c := junitCase{Name: one.Name, Class: one.Suite, Time: fmt.Sprintf("%.3f", one.Seconds)}
		c.File, c.Line, _ = strings.Cut(one.At, ":")
		if !one.Passed {
			first, _, _ := strings.Cut(one.Message, "\n")
			c.Failure = &junitFailure{first, one.Message}
			s.Failures++
		}
		s.Tests++
		spent[one.Suite] += one.Seconds
		s.Time = fmt.Sprintf("%.3f", spent[one.Suite])
		s.Cases = append(s.Cases, c)
	}
	return suites
}

// caseLines finds in a folder's tests the lines of cases, by their names as go test
// writes them.
func caseLines(dir string) map[string]string {
	lines := map[string]string{}
	files, _ := filepath.Glob(filepath.Join(dir, "*_test.go"))
	for _, file := range files {
		set := token.NewFileSet()
		parsed, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			continue // go test says what is wrong with it
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, _ := strconv.Unquote(lit.Value)
				name := strings.ReplaceAll(text, " ", "_")
				if _, taken := lines[name]; !taken {
					lines[name] = fmt.Sprintf("%s:%d", filepath.Base(file), set.Position(lit.Pos()).Line)
				}
			}
			return true
		})
	}
	return lines
}

// askedCase is how a recording names what was asked.
var askedCase = regexp.MustCompile(`case ("(?:[^"\\]|\\.)*")`)

// atCase puts before an error about a case where the author wrote it.
func atCase(err error, dir string) error {
	m := askedCase.FindStringSubmatch(err.Error())
	if m == nil {
		return err
	}
	name, _ := strconv.Unquote(m[1])
	if at := caseLines(dir)[strings.ReplaceAll(name, " ", "_")]; at != "" {
		return fmt.Errorf("%s: %w", at, err)
	}
	return err
}

// failedCase is how go test tells of a case that failed.
var failedCase = regexp.MustCompile(`^\s+--- FAIL: [^/]+/(.*) \([0-9.]+s\)\s*$`)

// withLines passes on what go test prints, and tells at failed cases where the
// author wrote them.
type withLines struct {
	to    io.Writer
	lines map[string]string
	begun []byte
}

func (w *withLines) Write(p []byte) (int, error) {
	w.begun = append(w.begun, p...)
	for {
		i := bytes.IndexByte(w.begun, '\n')
		if i < 0 {
			return len(p), nil
		}
		line := string(w.begun[:i])
		w.begun = w.begun[i+1:]
		if m := failedCase.FindStringSubmatch(line); m != nil && w.lines[m[1]] != "" {
			line = strings.TrimRight(line, " ") + " at " + w.lines[m[1]]
		}
		if _, err := fmt.Fprintln(w.to, line); err != nil {
			return 0, err
		}
	}
}

// fromGoTest takes results out of what go test -json prints.
func (r *results) fromGoTest(stream []byte, lines map[string]string) {
	said := map[string]*strings.Builder{}
	parents := map[string]bool{}
	for events := json.NewDecoder(bytes.NewReader(stream)); ; {
		var e struct {
			Action, Test, Output string
			Elapsed              float64
		}
		if events.Decode(&e) != nil {
			return
		}
		if said[e.Test] == nil {
			said[e.Test] = new(strings.Builder)
		}
		if parent, _, ok := cutLast(e.Test, "/"); ok {
			parents[parent] = true
		}
		switch e.Action {
		case "output", "build-output":
			said[e.Test].WriteString(e.Output)
		case "pass", "fail":
			if e.Test == "" && e.Action == "fail" && len(r.all) == 0 {
				r.add(result{Suite: "native", Name: "go test", Message: strings.TrimSpace(said[""].String()), Seconds: e.Elapsed})
			}
			if e.Test == "" || parents[e.Test] {
				continue
			}
			_, name, _ := cutLast(e.Test, "/")
			one := result{Suite: "native", Name: e.Test, Passed: e.Action == "pass", At: lines[name], Seconds: e.Elapsed}
			if !one.Passed {
				one.Message = words(said[e.Test].String())
			}
			r.add(one)
		}
	}
}

// words are what a test says, without what go test says of it.
func words(output string) string {
	var kept []string
	for _, line := range strings.Split(output, "\n") {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ") {
			kept = append(kept, line)
		}
	}
	return strings.Join(kept, "\n")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, s, false
}

func since(began time.Time) float64 { return time.Since(began).Seconds() }
