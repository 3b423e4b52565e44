package main

import (
	"fmt"
	"html"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/berth-dev/berth/host/api"
	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/auth/bootstrap"
	"github.com/berth-dev/berth/host/auth/serviceaccount"
	"github.com/berth-dev/berth/host/console"
)

// repo is the folder of the module, from here.
const repo = "../../.."

// TestPagesSayWhatIs holds every page against the tree: its links, and the
// commands, flags and targets that it shows.
func TestPagesSayWhatIs(t *testing.T) {
	t.Parallel()
	root, targets := newRoot(), targets(t)
	pages := find(t, ".md")
	if len(pages) < 10 {
		t.Fatalf("only these pages were found: %q", pages)
	}
	for _, page := range pages {
		text := read(t, page)
		for _, wrong := range slices.Concat(badLinks(page, text), badFiles(text), badCommands(root, targets, text)) {
			t.Errorf("%s: %s", page, wrong)
		}
	}
}

// TestAPageThatIsWrongIsSeen shows that the checks can fail.
func TestAPageThatIsWrongIsSeen(t *testing.T) {
	t.Parallel()
	root, targets := newRoot(), targets(t)
	for text, want := range map[string]string{
		"[x](nowhere.md)":                      "nowhere.md",
		"[x](README.md#no-such-heading)":       "no-such-heading",
		"[![x](docs/none.svg)](README.md)":     "docs/none.svg",
		"`berth polcy list`":                   "polcy",
		"`berth policy pusch x`":               "pusch",
		"```\nkubectl get x | berth plan -q\n": "-q",
		"```sh\nbin/berth up --agnet none\n":   "--agnet",
		"see `./task tset`":                    "tset",
		"`berth policy push NAME --dry-rum`":   "--dry-rum",
	} {
		said := strings.Join(slices.Concat(badLinks("README.md", text), badFiles(text), badCommands(root, targets, text)), "; ")
		if !strings.Contains(said, want) {
			t.Errorf("%q is told as %q, want %s", text, said, want)
		}
	}
}

// TestEachClaimOfCompatibilityHasItsTest looks for the tests that the page names.
func TestEachClaimOfCompatibilityHasItsTest(t *testing.T) {
	t.Parallel()
	var there strings.Builder
	for _, file := range find(t, "_test.go") {
		there.WriteString(read(t, file))
	}
	named := regexp.MustCompile("`(Test\\w+)`").FindAllStringSubmatch(read(t, "docs/compatibility.md"), -1)
	if len(named) < 20 {
		t.Fatalf("the page names %d tests", len(named))
	}
	for _, m := range named {
		if !strings.Contains(there.String(), "\nfunc "+m[1]+"(t *testing.T)") {
			t.Errorf("docs/compatibility.md names %s, and there is no such test", m[1])
		}
	}
}

// TestTroubleshootingQuotesWhatTheCodeSays looks for the messages of the page in
// the code. The parts between … are looked for by themselves.
func TestTroubleshootingQuotesWhatTheCodeSays(t *testing.T) {
	t.Parallel()
	var code strings.Builder
	for _, file := range append(find(t, ".go", ".sh"), "task") {
		if !strings.HasSuffix(file, "_test.go") {
			code.WriteString(strings.ReplaceAll(read(t, file), `\"`, `"`))
		}
	}
	quoted := regexp.MustCompile("(?m)^\\| `([^`]+)` \\|").FindAllStringSubmatch(read(t, "docs/troubleshooting.md"), -1)
	if len(quoted) < 30 {
		t.Fatalf("the page quotes %d messages", len(quoted))
	}
	for _, m := range quoted {
		for _, part := range strings.Split(m[1], "…") {
			if part = strings.TrimSpace(part); len(part) > 3 && !strings.Contains(code.String(), part) {
				t.Errorf("docs/troubleshooting.md quotes %q, which the code does not say: %q", m[1], part)
			}
		}
	}
}

// TestEachQuestionIsAnsweredInThreeSentences keeps RATIONALE.md short.
func TestEachQuestionIsAnsweredInThreeSentences(t *testing.T) {
	t.Parallel()
	questions := strings.Split(read(t, "RATIONALE.md"), "\n### ")[1:]
	if len(questions) < 40 {
		t.Fatalf("RATIONALE.md has %d questions", len(questions))
	}
	end := regexp.MustCompile("[.?!]\\)?(\\s+[A-Z`(0-9]|\\s*$)")
	for _, q := range questions {
		asked, answer, _ := strings.Cut(q, "\n")
		answer, _, _ = strings.Cut(answer, "\n## ")
		if n := len(end.FindAllString(answer, -1)); n == 0 || n > 3 {
			t.Errorf("%q is answered in %d sentences", asked, n)
		}
	}
}

// TestOperationsNamesEachMetric holds the metrics of the page against those of the code,
// both ways, and the flags of the page against those of the commands.
func TestOperationsNamesEachMetric(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/operations.md")
	named := map[string]bool{}
	for _, name := range regexp.MustCompile("`berth_([a-z_]+)[`{]").FindAllStringSubmatch(page, -1) {
		named[name[1]] = true
	}
	for _, m := range regexp.MustCompile(`(?:described\("|"berth_)([a-z_]+)"`).FindAllStringSubmatch(read(t, "host/metrics.go")+read(t, "host/histograms.go")+read(t, "nodeagent/dns/metrics.go")+read(t, "nodeagent/proxy/metrics.go")+read(t, "nodeagent/isolation/metrics.go")+read(t, "nodeagent/ingress/metrics.go"), -1) {
		if !named[m[1]] {
			t.Errorf("docs/operations.md does not name berth_%s", m[1])
		}
		delete(named, m[1])
	}
	for name := range named {
		t.Errorf("docs/operations.md names berth_%s, and there is no such metric", name)
	}
	up, agent := newUp(), newAgent()
	for _, m := range regexp.MustCompile("`--([a-z-]+)").FindAllStringSubmatch(page, -1) {
		if m[1] != "life" && up.Flags().Lookup(m[1]) == nil && agent.Flags().Lookup(m[1]) == nil {
			t.Errorf("docs/operations.md names --%s, which neither up nor agent has", m[1])
		}
	}
}

// TestTheUnitOfOperationsLetsPodsLive holds the unit file of the page against what
// Berth can do, and what systemd must not.
func TestTheUnitOfOperationsLetsPodsLive(t *testing.T) {
	t.Parallel()
	_, unit, _ := strings.Cut(read(t, "docs/operations.md"), "```ini\n")
	unit, _, found := strings.Cut(unit, "```")
	if !found {
		t.Fatal("docs/operations.md has no unit file")
	}
	set := map[string]string{}
	for _, line := range strings.Split(unit, "\n") {
		if key, value, ok := strings.Cut(line, "="); ok {
			set[key] = value
		}
	}
	for key, want := range map[string]string{
		"KillMode": "process", // any other ends the pods with the unit
		"Type":     "exec",    // nothing in this tree speaks systemd's protocol of readiness
		"Delegate": "yes", "Restart": "always", "After": "network-online.target", "Wants": "network-online.target",
	} {
		if set[key] != want {
			t.Errorf("the unit has %s=%s, want %s", key, set[key], want)
		}
	}
	program, rest, _ := strings.Cut(set["ExecStart"], " ")
	if filepath.Base(program) != "berth" || !filepath.IsAbs(program) {
		t.Errorf("the unit starts %q", program)
	}
	if said := badCommand(newRoot(), strings.Fields(rest)); said != "" {
		t.Errorf("%s: %s", set["ExecStart"], said)
	}
}

// TestReadmesLivesOfAPolicyAreLed types the README's commands one after another.
func TestReadmesLivesOfAPolicyAreLed(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	schedulable(t, kubeconfig, 2, 1)
	_, block, _ := strings.Cut(read(t, "README.md"), "\n## A policy\n")
	_, block, _ = strings.Cut(block, "```sh\n")
	block, _, _ = strings.Cut(block, "```")
	typed := 0
	for _, line := range commands("```sh\n" + block) {
		words := strings.Fields(line)
		if len(words) < 3 || words[0] != "berth" {
			continue
		}
		for i, word := range words {
			if strings.HasPrefix(word, "examples/") {
				words[i] = filepath.Join(repo, word)
			}
		}
		if words[2] == "push" {
			words = append(words, "--go")
		}
		typed++
		if out, err := berth(t, append(words[1:], "--kubeconfig", kubeconfig)...); err != nil || strings.Contains(out, "nothing changed") {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
	}
	if typed < 4 {
		t.Errorf("the README has %d commands of a policy's life", typed)
	}
}

// TestOperationsNamesEachPath holds the page's paths and their verbs against those that
// a host serves beside Kubernetes' own, both ways.
func TestOperationsNamesEachPath(t *testing.T) {
	t.Parallel()
	served := map[string]bool{}
	add := func(pattern string) {
		method, path, _ := strings.Cut(pattern, " ")
		if strings.HasPrefix(path, "/berth/") || strings.HasPrefix(path, console.Root) {
			served[method+" "+strings.TrimSuffix(path, "*")] = true
		}
	}
	for _, routes := range []map[string]api.Route{new(berthapi.API).Routes(), new(console.Console).Routes()} {
		for pattern := range routes {
			add(pattern)
		}
	}
	// What is laid where all is put together.
	known := map[string]string{
		"bootstrap.Path": bootstrap.Path, "serviceaccount.ConfigurationPath": serviceaccount.ConfigurationPath, "serviceaccount.KeysPath": serviceaccount.KeysPath,
	}
	for _, m := range regexp.MustCompile(`(?m)^\t\t"([A-Z]+) ([^"]*)"(?: \+ ([\w.]+))?:`).FindAllStringSubmatch(read(t, "host/guard.go"), -1) {
		if m[3] != "" && known[m[3]] == "" {
			t.Errorf("host/guard.go serves a path that this test does not know: %s", m[3])
		}
		add(m[1] + " " + m[2] + known[m[3]])
	}
	for _, m := range regexp.MustCompile("(?m)^\\| ([A-Z, ]+) \\| `(/[^`]+)` \\|").FindAllStringSubmatch(read(t, "docs/operations.md"), -1) {
		for _, method := range strings.Split(m[1], ", ") {
			pattern := method + " " + regexp.MustCompile("[A-Z]+").ReplaceAllStringFunc(m[2], func(word string) string { return ":" + strings.ToLower(word) })
			if !served[pattern] {
				t.Errorf("docs/operations.md names %s, which no host serves", pattern)
			}
			delete(served, pattern)
		}
	}
	for pattern := range served {
		t.Errorf("docs/operations.md does not name %s", pattern)
	}
}

// TestThePictureShowsTheSession holds the README's picture against the text that
// it is drawn from: .ci/tools/picture.sh writes both.
func TestThePictureShowsTheSession(t *testing.T) {
	t.Parallel()
	picture := html.UnescapeString(read(t, "docs/explain.svg"))
	for _, line := range strings.Split(read(t, "docs/explain.txt"), "\n") {
		if line = strings.TrimRight(line, " "); line != "" && !strings.Contains(picture, ">"+line+"</text>") {
			t.Errorf("docs/explain.svg lacks %q: run .ci/tools/picture.sh", line)
		}
	}
}

// find lists the files of the tree with one of these endings, from its root.
func find(t *testing.T, endings ...string) (files []string) {
	t.Helper()
	err := filepath.WalkDir(repo, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", ".build", ".task", "bin", "testdata", "vendor"}, entry.Name()) {
				return filepath.SkipDir
			}
			return nil
		}
		if slices.ContainsFunc(endings, func(e string) bool { return strings.HasSuffix(path, e) }) {
			from, err := filepath.Rel(repo, path)
			files = append(files, from)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func read(t *testing.T, file string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repo, file))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// targets are those of Taskfile.yml.
func targets(t *testing.T) map[string]any {
	t.Helper()
	var file struct {
		Tasks map[string]any `json:"tasks"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "Taskfile.yml")), &file); err != nil || len(file.Tasks) == 0 {
		t.Fatalf("Taskfile.yml has %d targets, error %v", len(file.Tasks), err)
	}
	return file.Tasks
}

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	span    = regexp.MustCompile("`([^`\n]+)`")
	heading = regexp.MustCompile(`(?m)^#+ +(.*)$`)
	mark    = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

// badLinks are the relative links of a page that lead nowhere.
func badLinks(page, text string) (wrong []string) {
	for _, m := range link.FindAllStringSubmatch(outside(text), -1) {
		target := m[1]
		if strings.Contains(target, "://") || strings.HasPrefix(target, "mailto:") {
			continue
		}
		file, anchor, _ := strings.Cut(target, "#")
		to := page
		if file != "" {
			to = filepath.Join(filepath.Dir(page), file)
		}
		data, err := os.ReadFile(filepath.Join(repo, to))
		if info, e := os.Stat(filepath.Join(repo, to)); e == nil && info.IsDir() {
			err = nil
		}
		switch {
		case err != nil:
			wrong = append(wrong, fmt.Sprintf("the link to %s leads nowhere", target))
		case anchor != "" && !slices.Contains(anchors(string(data)), anchor):
			wrong = append(wrong, fmt.Sprintf("the link to %s leads to no heading", target))
		}
	}
	return wrong
}

var sourceFile = regexp.MustCompile(`\b(?:abi|host|nodeagent|sdk|policies-wasm|examples)/[\w/.-]+\.(?:go|sh|md|yaml)\b`)

// badFiles are the files of the tree that a page names and that are not there.
func badFiles(text string) (wrong []string) {
	for _, file := range sourceFile.FindAllString(text, -1) {
		if _, err := os.Stat(filepath.Join(repo, file)); err != nil {
			wrong = append(wrong, "there is no file "+file)
		}
	}
	return wrong
}

// anchors are the names that a forge gives to a page's headings.
func anchors(text string) (names []string) {
	for _, m := range heading.FindAllStringSubmatch(outside(text), -1) {
		name := mark.ReplaceAllString(strings.ToLower(m[1]), "")
		names = append(names, strings.ReplaceAll(name, " ", "-"))
	}
	return names
}

// outside is a page without its code blocks.
func outside(text string) string {
	var out []string
	fenced := false
	for _, line := range strings.Split(text, "\n") {
		if strings.HasPrefix(line, "```") {
			fenced = !fenced
		} else if !fenced {
			out = append(out, line)
		}
	}
	return strings.Join(out, "\n")
}

// badCommands are the commands of a page, in its blocks and between its lines,
// that there are not, or not with those flags.
func badCommands(root *cobra.Command, targets map[string]any, text string) (wrong []string) {
	for _, line := range commands(text) {
		words := strings.Fields(strings.Trim(line, "()"))
		for len(words) > 0 && (words[0] == "$" || words[0] == "sudo" || strings.Contains(words[0], "=")) {
			words = words[1:]
		}
		if len(words) < 2 {
			continue
		}
		switch words[0] {
		case "berth", "bin/berth":
			if said := badCommand(root, words[1:]); said != "" {
				wrong = append(wrong, fmt.Sprintf("%s: %s", line, said))
			}
		case "./task":
			if name := words[1]; plain(name) && targets[name] == nil {
				wrong = append(wrong, fmt.Sprintf("%s: there is no target %s", line, name))
			}
		}
	}
	return wrong
}

var pipe = regexp.MustCompile(`\|\|?|&&?|;|\$\(`)

// commands are what a shell would start.
func commands(text string) (all []string) {
	shell, fenced := false, false
	for _, line := range strings.Split(text, "\n") {
		if language, fence := strings.CutPrefix(line, "```"); fence {
			fenced = !fenced
			word, _, _ := strings.Cut(language, " ")
			shell = fenced && (word == "" || word == "sh")
			continue
		}
		if shell {
			line, _, _ = strings.Cut(line, " #")
			all = append(all, pipe.Split(line, -1)...)
		}
		if !fenced {
			for _, m := range span.FindAllStringSubmatch(line, -1) {
				all = append(all, pipe.Split(m[1], -1)...)
			}
		}
	}
	for i := range all {
		all[i] = strings.TrimSpace(all[i])
	}
	return all
}

// plain tells a word of a command from a placeholder.
func plain(word string) bool { return regexp.MustCompile(`^[a-z][a-z-]*$`).MatchString(word) }

// badCommand says what is wrong with a command line of berth, "" if nothing is.
func badCommand(cmd *cobra.Command, words []string) string {
	for i := 0; i < len(words); i++ {
		word := words[i]
		if strings.HasPrefix(word, "-") && word != "-" {
			name, _, given := strings.Cut(word, "=")
			value, known := takesValue(cmd, name)
			if !known {
				return fmt.Sprintf("%s has no flag %s", cmd.CommandPath(), name)
			}
			if value && !given {
				i++
			}
			continue
		}
		if sub := subcommand(cmd, word); sub != nil {
			cmd = sub
		} else if cmd.HasSubCommands() && plain(word) {
			return fmt.Sprintf("%s has no command %s", cmd.CommandPath(), word)
		}
	}
	return ""
}

func subcommand(cmd *cobra.Command, name string) *cobra.Command {
	for _, sub := range cmd.Commands() {
		if sub.Name() == name || sub.HasAlias(name) {
			return sub
		}
	}
	return nil
}

func takesValue(cmd *cobra.Command, flag string) (value, known bool) {
	cmd.InitDefaultHelpFlag()
	f := cmd.Flags().Lookup(strings.TrimLeft(flag, "-"))
	if f == nil {
		f = cmd.InheritedFlags().Lookup(strings.TrimLeft(flag, "-"))
	}
	if f == nil && len(flag) == 2 {
		f = cmd.Flags().ShorthandLookup(flag[1:])
	}
	return f != nil && f.NoOptDefVal == "", f != nil
}
