package walk_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-dev/berth/host/polltest"
)

// block is a fenced block of a Markdown page: its language, what else stands
// beside that, and its lines.
type block struct {
	language, note string
	lines          []string
	at             int // line of the page
}

func blocks(page string) (all []block) {
	var open *block
	for i, line := range strings.Split(page, "\n") {
		info, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && open == nil:
			language, note, _ := strings.Cut(info, " ")
			open = &block{language: language, note: note, at: i + 1}
		case fence:
			all, open = append(all, *open), nil
		case open != nil:
			open.lines = append(open.lines, line)
		}
	}
	return all
}

// reader does what a page says, in a home and a shell of its own.
type reader struct {
	dir  string
	env  []string
	said string   // by the block before
	last string   // its last command
	up   *cluster // what runs in the other shell
}

// TestTheTutorial does line by line what the page says.
func TestTheTutorial(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join(root, "docs", "tutorial.md"))
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	done := map[string]int{}
	for _, b := range blocks(string(page)) {
		r.do(t, b)
		done[b.language]++
	}
	if done["sh"] < 10 || done["text"] < 8 || done["go"] != 2 {
		t.Errorf("of the page these blocks were done: %v", done)
	}
}

func newReader(t *testing.T) *reader {
	t.Helper()
	home, bin := t.TempDir(), t.TempDir()
	// Ports are shared between tests; all else is as the page says.
	berth := fmt.Sprintf("#!/bin/sh\n[ \"$1\" = up ] && set -- \"$@\" --listen 127.0.0.1:0\nexec %s \"$@\"\n", binary)
	if err := os.WriteFile(filepath.Join(bin, "berth"), []byte(berth), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(program(t, "kubectl"), filepath.Join(bin, "kubectl")); err != nil {
		t.Fatal(err)
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		t.Fatal(err)
	}
	env := []string{"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "XDG_CACHE_HOME=" + cache, "GOPROXY=off", "KUBECONFIG="}
	for _, name := range []string{"GOPATH", "GOMODCACHE", "GOCACHE"} {
		out, err := exec.Command("go", "env", name).Output()
		if err != nil {
			t.Fatal(err)
		}
		env = append(env, name+"="+strings.TrimSpace(string(out)))
	}
	if err := os.WriteFile(filepath.Join(home, ".cwd"), []byte(home), 0o600); err != nil {
		t.Fatal(err)
	}
	return &reader{dir: home, env: append(os.Environ(), env...)}
}

func (r *reader) do(t *testing.T, b block) {
	t.Helper()
	switch {
	case b.language == "sh" && b.note == "background":
		r.background(t, b)
	case b.language == "sh" && b.note == "end":
		r.up.end()
		r.up = nil
		r.run(t, b)
	case b.language == "sh":
		r.run(t, b)
	case b.language == "text":
		r.want(t, b)
	case b.note != "":
		file := filepath.Join(r.cwd(t), b.note)
		if err := os.WriteFile(file, []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

// background starts what the page has run in another shell.
func (r *reader) background(t *testing.T, b block) {
	t.Helper()
	r.up = &cluster{t: t, exited: make(chan struct{}), log: new(logFile)}
	cmd := exec.Command("bash", "-c", "exec "+strings.Join(b.lines, "\n"))
	cmd.Dir, cmd.Env, cmd.Stderr = r.dir, r.env, r.up.log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	r.up.cmd = cmd
	t.Cleanup(func() {
		if r.up != nil {
			r.up.end()
		}
	})
	ready := make(chan bool, 1)
	go r.up.follow(out, ready)
	select {
	case ok := <-ready:
		if !ok {
			t.Fatalf("line %d: %q ended:\n%s", b.at, b.lines, r.up.log)
		}
	case <-time.After(2 * time.Minute):
		t.Fatalf("line %d: %q is not ready:\n%s", b.at, b.lines, r.up.log)
	}
}

// run does a block's lines one by one, in a shell that remembers its folder and
// its variables.
func (r *reader) run(t *testing.T, b block) {
	t.Helper()
	r.said = ""
	for _, line := range b.lines {
		said, err := r.line(line)
		r.said += said
		r.last = line
		if fails := b.note == "fails"; fails != (err != nil) {
			t.Fatalf("line %d: %s\n%v\n%s", b.at, line, err, said)
		}
	}
}

func (r *reader) line(line string) (string, error) {
	const script = `[ ! -e "$HOME/.vars" ] || . "$HOME/.vars"; cd "$(cat "$HOME/.cwd")"; %s
status=$?; export -p >"$HOME/.vars"; pwd >"$HOME/.cwd"; exit $status`
	cmd := exec.Command("bash", "-c", fmt.Sprintf(script, line))
	cmd.Env = r.env
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (r *reader) cwd(t *testing.T) string {
	t.Helper()
	dir, err := os.ReadFile(filepath.Join(r.dir, ".cwd"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(dir))
}

// want looks for each line of a block in what was said; … stands for anything.
// What only looks may be asked again, since decisions take a moment.
func (r *reader) want(t *testing.T, b block) {
	t.Helper()
	looks := strings.HasPrefix(r.last, "berth explain") || strings.HasPrefix(r.last, "kubectl get")
	lacks := missingLine(r.said, b.lines)
	again := func() bool {
		r.said, _ = r.line(r.last)
		lacks = missingLine(r.said, b.lines)
		return lacks == ""
	}
	if lacks != "" && (!looks || !polltest.Within(time.Minute, again)) {
		t.Fatalf("line %d: what was said lacks %q:\n%s", b.at, lacks, r.said)
	}
}

func missingLine(said string, lines []string) string {
	for _, line := range lines {
		pattern := strings.ReplaceAll(regexp.QuoteMeta(line), "…", ".*")
		if ok, err := regexp.MatchString(pattern, said); err != nil || !ok {
			return line
		}
	}
	return ""
}
