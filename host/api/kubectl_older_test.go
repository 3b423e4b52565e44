package api_test

import (
	"cmp"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
)

// olderKubectls finds the kubectls of other releases, by minor version: those
// that .ci/tools/kubectl.sh built beside the pinned one (kubectl-1.29), those on
// PATH, and those that BERTH_KUBECTLS lists.
func olderKubectls(t *testing.T) map[int]string {
	t.Helper()
	if os.Getenv("CI") != "" && os.Getenv("BERTH_CAMPAIGN") == "" {
		return nil // it has none, unless a campaign left some: it does the same on each machine
	}
	dirs := filepath.SplitList(os.Getenv("PATH"))
	if pinned, err := findKubectl(); err == nil {
		dirs = append([]string{filepath.Dir(pinned)}, dirs...)
	}
	paths := filepath.SplitList(os.Getenv("BERTH_KUBECTLS"))
	for _, dir := range dirs {
		for _, pattern := range []string{"kubectl-1.*", "kubectl.1.*"} {
			found, _ := filepath.Glob(filepath.Join(dir, pattern))
			paths = append(paths, found...)
		}
	}
	named := regexp.MustCompile(`kubectl[-.]1\.(\d+)$`)
	all := map[int]string{}
	for _, path := range paths {
		m := named.FindStringSubmatch(path)
		if m == nil {
			continue
		}
		minor, _ := strconv.Atoi(m[1]) // digits
		if all[minor] == "" && minor >= oldestKubectl {
			all[minor] = path
		}
	}
	return all
}

// oldestKubectl is the first that must agree.
const oldestKubectl = 29

// TestOlderKubectlsAgree walks the goldens with each older kubectl that is
// installed. Only what the client itself prints or takes otherwise may differ.
func TestOlderKubectlsAgree(t *testing.T) {
	t.Parallel()
	for minor, kubectl := range olderKubectls(t) {
		t.Run(fmt.Sprintf("1.%d", minor), func(t *testing.T) {
			t.Parallel()
			eachGolden(t, func(t *testing.T, file string) {
				sh := newShell(t, kubectl, preparedFor(file))
				sh.older = func(line string) string { return rewrite(line, commandsSince, minor) }
				want, got := walkGolden(t, file, sh)
				if diff := gocmp.Diff(rewrite(want, printsSince, minor), rewrite(got, printsSince, minor)); diff != "" {
					t.Errorf("kubectl 1.%d prints otherwise (-want +got):\n%s", minor, diff)
				}
			})
		})
	}
}

// since is a difference between clients: from the release named on, they print
// what the pattern matches, where older ones print or take the replacement.
type since struct {
	minor   int
	pattern string
	older   string
	why     string
}

// commandsSince are commands that older clients have in another form.
var commandsSince = []since{
	{34, `--cpu=(\d+)%`, "--cpu-percent=$1", "autoscale named its flag otherwise"},
}

// printsSince are the client's own words.
var printsSince = []since{
	{37, `^Client Version: .*\nKustomize Version: .*`, "Client Version: X", "a client's own version"},
	{37, `kubectl/v1\.[\d.]+`, "kubectl/v1", "a client's own version"},
	{37, `^WARNING: version difference between client .*\n`, "", "the skew of a client's version"},
	{36, `^--profile=legacy is deprecated .*\n`, "", "debug warned of its default"},
	{35, `(deleted) from \S+ namespace$`, "$1", "delete did not name the namespace"},
	{35, `CPU\(%\)`, "CPU%", "top's headings"},
	{35, `MEMORY\(%\)`, "MEMORY%", "top's headings"},
	{35, `cannot delete (cannot delete )?Pods (that )?declare`, "cannot delete Pods declare", "drain's words about pods without a controller"},
	{35, `^metadata:\n  creationTimestamp: null\n(\S)`, "metadata: {}\n$1", "YAML showed times that are not set"},
	{35, `^ +creationTimestamp: null\n`, "", "YAML showed times that are not set"},
	{35, ` out of: \S+$`, "", "logs did not say which containers there are"},
	{35, `^(Time Zone|Mountable secrets|Tokens): .*\n`, "", "fields that describe names or named"},
	{34, `^(\$ .*)--cpu=(\d+)%`, "$1--cpu-percent=$2", "the command, as it was run"},
	{34, `^error: no objects passed to scale.*`, `Error from server (NotFound): deployments.apps "nosuch" not found`, "scale's words when there is nothing"},
	{33, `^error: error from server \(NotFound\): pods "nosuch" not found in namespace "default"$`, `Error from server (NotFound): pods "nosuch" not found`, "logs' words"},
	{33, `^(Suspend|Backoff Limit|Internal Traffic Policy): .*\n`, "", "fields that describe names"},
	{33, `due to error: ?`, "due to error: ", "a blank in drain's words"},
	{34, `^ +Kube-Proxy Version:.*\n`, "", "describe node named a field that is no longer set"},
	{31, `^\s+(Node-Selectors|Tolerations):\s+<none>\n`, "", "describe left them out of templates"},
	{31, `  +`, " ", "the width of describe's columns"},
}

func rewrite(text string, all []since, minor int) string {
	all = slices.Clone(all)
	slices.SortStableFunc(all, func(a, b since) int { return cmp.Compare(b.minor, a.minor) })
	for _, s := range all {
		if minor < s.minor {
			text = regexp.MustCompile("(?m)"+s.pattern).ReplaceAllString(text, s.older)
		}
	}
	return text
}
