package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/berth-dev/berth/host/policy/policytest"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// What kubectl's users type works here.
func TestKubectlsHabits(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	schedulable(t, kubeconfig, 3, 1)
	made := handMade(t, policytest.Guest{Name: "zz-made", Version: "1", Refuse: -1})
	mustBerth(t, "policy", "push", "zz-made", made, "--kubeconfig", kubeconfig)
	for _, tt := range []struct{ args, want, not string }{
		{"policy list", "zz-made", "ISO"},
		{"policy list -o name", "policy.policy.berth.dev/zz-made\n", "NAME"},
		{"policy list --no-headers", "zz-made", "PHASE"},
		{"policy list -o wide", "ENTRY", ""},
		{"policy list -o jsonpath={.items[0].metadata.name}", "zz-made", "HostName"},
		{"policy history policy/zz-made", "live", ""},
		{"explain pod/p0", "default/p0 is on n", ""},
		{"explain pod pod/p0", "default/p0 is on n", ""},
		{"explain pods p0 -o name", "pod/p0\n", "is on"},
		{"explain pod p0 --why-not node/n1", "n1", ""},
		{"--version", "berth version devel", ""},
	} {
		out, err := berth(t, append(strings.Fields(tt.args), "--kubeconfig", kubeconfig)...)
		if err != nil || !strings.Contains(out, tt.want) || tt.not != "" && strings.Contains(out, tt.not) {
			t.Errorf("berth %s = %v\n%s\nwant %q and no %q", tt.args, err, out, tt.want, tt.not)
		}
	}
	for args, want := range map[string]string{
		"policy list --context none":              `context "none" does not exist`,
		"policy list -o xml":                      "use wide, name, json, yaml or jsonpath",
		"policy list -o jsonpath={":               "-o jsonpath: ",
		"completion tcsh":                         `unknown command "tcsh" for "berth completion": use bash, fish, powershell or zsh`,
		"explain deployment/web":                  `deployments.apps "web" not found`,
		"explain deployment":                      "name one object: berth explain KIND NAME, or KIND/NAME",
		"policy history pod/x":                    "pod/x is no policy",
		"explain pod p0 --why-not pod/n1":         "pod/n1 is no node",
		"explain pod p0 --node n1":                "--node is of services: --why-not n1 shows that node of a pod",
		"explain pod/p0 --to x:80 --node n1":      "--node is of services",
		"explain deployment/web --node n1":        "--node is of services",
		"explain pod p0 --to x:80 --why-not n1":   "--to asks about a connection, --why-not about a node: give one of them",
		"explain service/kubernetes --to x:80":    "--to is of pods",
		"explain service/kubernetes --why-not n1": "--why-not is of pods",
	} {
		if out, err := berth(t, append(strings.Fields(args), "--kubeconfig", kubeconfig)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("berth %s = %v, want %q\n%s", args, err, want, out)
		}
	}
	for _, args := range []string{"policy list", "policy history zz-made", "policy figures", "explain pod p0", "policy inspect zz-made"} {
		out := mustBerth(t, append(strings.Fields(args), "--kubeconfig", kubeconfig)...)
		for _, line := range strings.Split(out, "\n") {
			if n := utf8.RuneCountInString(line); n > 80 && !strings.Contains(line, ": ") {
				t.Errorf("berth %s: a line of a table has %d columns: %s", args, n, line)
			}
		}
	}
	if out := mustBerth(t, "policy", "list", "--kubeconfig", kubeconfig); strings.Index(out, "zz-made") > strings.Index(out, "BalancedResourceAllocation") {
		t.Errorf("one's own policy stands below those that come with the host:\n%s", out)
	}
}

func TestAListIsWatched(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	ctx, cancel := context.WithCancel(t.Context())
	out, ended := following(ctx, "policy", "list", "-w", "-o", "name", "--kubeconfig", kubeconfig)
	eventually(t, "the list is printed", func() bool { return strings.Contains(out.String(), "TaintTolerationPriority") })
	mustBerth(t, "policy", "push", "zz-made", handMade(t, policytest.Guest{Name: "zz-made", Version: "1", Refuse: -1}), "--kubeconfig", kubeconfig)
	eventually(t, "a change is printed", func() bool { return strings.Contains(out.String(), "policy.policy.berth.dev/zz-made\n") })
	cancel()
	<-ended
}

func TestALineEndsWhereTheScreenDoes(t *testing.T) {
	t.Parallel()
	screen := look{columns: 20, colour: true}
	var b strings.Builder
	screen.line(&b, []string{"name", "Live", "a long message to cut"}, []int{4, 4, 21}, true)
	if want := "name  \x1b[32mLive\x1b[0m  a long …\n"; b.String() != want {
		t.Errorf("line = %q, want %q", b.String(), want)
	}
	b.Reset()
	screen.line(&b, []string{"name", "Off", "short"}, []int{4, 4, 6}, false)
	if want := "name   Off    short\n"; b.String() != want {
		t.Errorf("line with room = %q, want %q", b.String(), want)
	}
	if got, want := screen.wrapped("words that go on and on"), "words that go on and\n  on"; got != want {
		t.Errorf("wrapped = %q, want %q", got, want)
	}
}

// What a module calls itself is not the terminal's to obey.
func TestACellDoesNotSteerTheTerminal(t *testing.T) {
	t.Parallel()
	var b strings.Builder
	l := table{head: []string{"NAME", "SAYS"}}
	l.add("a\x1b[2J", "\rno\nroom")
	l.note("a", "\x1b]0;x\x07")
	if err := l.write(&b); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.ContainsAny(got, "\x1b\r\x07") || strings.Count(got, "\n") != 3 {
		t.Errorf("the table is %q", got)
	}
}

// A table that has no room for wide gaps has narrow ones: that of a bench, with
// the longest name and figures of a hundred thousand nodes, fits 80 columns.
func TestABenchFitsTheScreen(t *testing.T) {
	t.Parallel()
	screen := look{columns: 80}
	lines := [][]string{
		newBenchTable().head,
		{"TaintTolerationPriority", "100000", "1234.5", "123456", "123456", "100.0%", "0", "64.0"},
	}
	var b strings.Builder
	for _, line := range lines {
		screen.line(&b, line, widths(lines, len(line), nil), false)
	}
	if got := b.String(); strings.Contains(got, "…") || strings.Index(got, "\n") > 80 || !strings.HasSuffix(got, "64.0\n") {
		t.Errorf("the table is\n%s", got)
	}
}

// Where nothing differs there is no table, only what was compared.
func TestADiffOfNothingIsOneSentence(t *testing.T) {
	t.Parallel()
	for want, d := range map[string]v1alpha1.Differences{
		"22 pods compared: nodes refused 0 times, to 0 pods; admitted 0 times; another node is best for 0 pods\n": {Pods: 22},
		"3 answers compared: 0 want something else done\n":                                                        {Answers: 3},
		"POD   NODE   LIVE     TRIAL\np     n      admits   refuses\n\n1 pod compared: nodes refused 1 times, to 1 pod; admitted 0 times; another node is best for 0 pods\n": {
			Pods: 1, Refused: 1, RefusedPods: 1, Examples: []v1alpha1.Difference{{Pod: "p", Node: "n", Live: "admits", Trial: "refuses"}},
		},
	} {
		var b strings.Builder
		if err := diffTable(&d).write(&b); err != nil || b.String() != want {
			t.Errorf("%+v is told as %q, %v, want %q", d, b.String(), err, want)
		}
	}
}

func TestATimeFitsItsColumn(t *testing.T) {
	t.Parallel()
	for d, want := range map[time.Duration]string{0: "0s", 999: "999ns", 18_327_512: "18.33ms", 100_123_456: "100.1ms", 1_999_960: "2ms", 9_999_999_999: "10s"} {
		if got := fourDigits(d).String(); got != want {
			t.Errorf("%d ns are shown as %s, want %s", d, got, want)
		}
	}
}

func TestManPagesAreWritten(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "man1")
	mustBerth(t, "man", dir)
	page, err := os.ReadFile(filepath.Join(dir, "berth-policy-push.1"))
	if err != nil || !strings.Contains(string(page), "--canary") && !strings.Contains(string(page), `\-\-canary`) {
		t.Errorf("berth-policy-push.1 = %v\n%s", err, page)
	}
}
