package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/berth-dev/berth/host/api/berthapi"
	"github.com/berth-dev/berth/host/explain"
)

func TestAPlanTellsByItsExitCode(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	file := filepath.Join(t.TempDir(), "pods.yaml")
	write(t, file, pod("a")+"---\n"+pod("b"))
	out, err := berth(t, "plan", "-f", file, "--kubeconfig", kubeconfig)
	var code exitCode
	if !errors.As(err, &code) || code != 2 {
		t.Errorf("plan without nodes = %v, want exit code 2\n%s", err, out)
	}
	for _, want := range []string{"default/a", "default/b", "no nodes available"} {
		if !strings.Contains(out, want) {
			t.Errorf("plan does not show %q:\n%s", want, out)
		}
	}
	if err := verdictOf([]explain.Placement{{Node: "n1"}}); err != nil {
		t.Errorf("plan with all placed = %v", err)
	}
	for _, bad := range []string{"", "kind: Service\napiVersion: v1\n", "kind: Pod\nspec: 3\n", ": :"} {
		write(t, file, bad)
		if out, err := berth(t, "plan", "-f", file, "--kubeconfig", kubeconfig); err == nil || errors.As(err, &code) {
			t.Errorf("plan of %q = %v\n%s", bad, err, out)
		}
	}
	write(t, file, pod("a")+"  restartPolicy: Sometimes\n")
	if out, err := berth(t, "plan", "-f", file, "--kubeconfig", kubeconfig); err == nil || !strings.Contains(err.Error(), `Pod "a" is invalid`) {
		t.Errorf("plan of a pod that the API refuses = %v, want it by its name\n%s", err, out)
	}
}

func pod(name string) string {
	return "apiVersion: v1\nkind: Pod\nmetadata:\n  name: " + name + "\nspec:\n  containers:\n  - name: c\n    image: example.test/a:1\n"
}

func TestFiguresAndLogsAreShown(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	if out := mustBerth(t, "policy", "figures", "--kubeconfig", kubeconfig); !strings.Contains(out, "PodFitsResources") {
		t.Errorf("figures:\n%s", out)
	}
	mustBerth(t, "policy", "logs", "PodFitsResources", "--kubeconfig", kubeconfig)
	for _, args := range [][]string{
		{"policy", "logs", "none"}, {"policy", "promote", "PodFitsResources"}, {"policy", "history", "none"}, {"replay", "7"}, {"replay", "x"},
	} {
		out, err := berth(t, append(args, "--kubeconfig", kubeconfig)...)
		if err == nil || strings.Contains(err.Error(), "unknown") {
			t.Errorf("berth %q = %v\n%s", args, err, out)
		}
	}
}

func TestABackupIsRestored(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	if out := mustBerth(t, "backup", file, "--kubeconfig", kubeconfig); !strings.Contains(out, "whole") {
		t.Errorf("backup says %s", out)
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the backup is %v, %v: want mode 0600", info, err)
	}
	data := filepath.Join(dir, "data")
	mustBerth(t, "restore", file, "--data-dir", data)
	if out, err := berth(t, "restore", file, "--data-dir", data); err == nil {
		t.Errorf("restore over a store says %s", out)
	}
	again := runHostOn(t, data)
	if out := mustBerth(t, "policy", "list", "--kubeconfig", again); !strings.Contains(out, "PodFitsResources") {
		t.Errorf("policies of the restored host:\n%s", out)
	}
}

// A restore that broke off says what has to go: the store, and not the keys beside it.
func TestAHalfRestoredStoreIsToBeRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, data := filepath.Join(dir, "backup"), filepath.Join(dir, "data")
	mustBerth(t, "backup", file, "--kubeconfig", runHost(t))
	whole, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, whole[:len(whole)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	want := "remove " + filepath.Join(data, "store") + ", and nothing else"
	if _, err := berth(t, "restore", file, "--data-dir", data); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("restore of half a backup: %v; want …%s…", err, want)
	}
	if _, err := berth(t, "host", "--data-dir", data, "--listen", "127.0.0.1:0"); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("a host on half a store: %v; want …%s…", err, want)
	}
}

func TestACutBackupIsNoticed(t *testing.T) {
	t.Parallel()
	kubeconfig := runHost(t)
	file := filepath.Join(t.TempDir(), "backup")
	mustBerth(t, "backup", file, "--kubeconfig", kubeconfig)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 1, 32, len(data) / 2, len(data) - 1, len(data)} {
		_, err := copyWhole(&strings.Builder{}, strings.NewReader(string(data[:n])))
		if whole := n == len(data); whole != (err == nil) {
			t.Errorf("%d of %d bytes: %v", n, len(data), err)
		}
	}
}

// Whatever keeps a backup from being made, it says what to do, and leaves the file
// of before as it was.
func TestABackupThatFailsSaysWhatToDo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "backup")
	write(t, file, "the one before")
	answers := http.NewServeMux()
	answers.HandleFunc("/unknown"+berthapi.BackupPath, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) })
	answers.HandleFunc("/cut"+berthapi.BackupPath, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write(make([]byte, 100))
	})
	answers.HandleFunc("/short"+berthapi.BackupPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 100)) })
	server := httptest.NewServer(answers)
	t.Cleanup(server.Close)
	closed := httptest.NewServer(answers)
	closed.Close()
	for name, tt := range map[string]struct{ server, file, want string }{
		"no host":               {closed.URL, file, "start one by `berth up`, or name another cluster by --kubeconfig"},
		"nobody that it knows":  {server.URL + "/unknown", file, "the host does not know who you are"},
		"an answer that is cut": {server.URL + "/cut", file, "the host or the connection ended; try again"},
		"one without its end":   {server.URL + "/short", file, "the host or the connection ended; try again"},
		"no folder":             {server.URL + "/short", filepath.Join(dir, "none", "backup"), "name a file in a folder that is there and can be written"},
	} {
		if out, err := berth(t, "backup", tt.file, "--kubeconfig", kubeconfigOf(t, tt.server)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: backup = %v, want %q\n%s", name, err, tt.want, out)
		}
	}
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer full.Close()
	if _, err := copyWhole(full, strings.NewReader(strings.Repeat("x", 100))); err == nil || !strings.Contains(err.Error(), "make room there, or name a file on another disk") {
		t.Errorf("a full disk: copyWhole = %v", err)
	}
	left, err := os.ReadDir(dir)
	if before, _ := os.ReadFile(file); err != nil || len(left) != 1 || string(before) != "the one before" {
		t.Errorf("the folder holds %v, %v; the file holds %q", left, err, before)
	}
}

// kubeconfigOf is one for a server that asks nobody who he is.
func kubeconfigOf(t *testing.T, server string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "kubeconfig")
	write(t, file, "apiVersion: v1\nkind: Config\ncurrent-context: c\nclusters: [{name: c, cluster: {server: '"+server+"'}}]\ncontexts: [{name: c, context: {cluster: c}}]\n")
	return file
}

// A pipe, a device and a link stay what they are, and words never mix with a backup.
func TestWhereABackupGoes(t *testing.T) {
	t.Parallel()
	sum := sha256.Sum256([]byte("all"))
	whole := "all" + string(sum[:])
	var asked atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = io.WriteString(w, whole)
	}))
	t.Cleanup(server.Close)
	kubeconfig, dir := kubeconfigOf(t, server.URL), t.TempDir()
	backup := func(file string) (out, words string, err error) {
		var stdout, stderr bytes.Buffer
		root := newRoot()
		root.SetOut(&stdout)
		root.SetErr(&stderr)
		root.SetArgs([]string{"backup", file, "--kubeconfig", kubeconfig})
		err = root.ExecuteContext(t.Context())
		return stdout.String(), stderr.String(), err
	}

	if out, words, err := backup("-"); err != nil || out != whole || words != "-: 1 KB, whole\n" {
		t.Errorf("backup - = %v, prints %q and says %q", err, out, words)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	// Opened for both, so that neither side waits for the other.
	end, err := os.OpenFile(pipe, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer end.Close()
	if out, words, err := backup(pipe); err != nil || out != "" || !strings.Contains(words, "whole") {
		t.Errorf("a backup into a pipe = %v, prints %q and says %q", err, out, words)
	}
	if info, err := os.Lstat(pipe); err != nil || info.Mode().Type() != fs.ModeNamedPipe {
		t.Fatalf("the pipe has become %v, %v", info.Mode(), err)
	}
	got := make([]byte, len(whole))
	if _, err := io.ReadFull(end, got); err != nil || string(got) != whole {
		t.Errorf("the pipe holds %q, %v", got, err)
	}

	file, link, nowhere := filepath.Join(dir, "file"), filepath.Join(dir, "link"), filepath.Join(dir, "nowhere")
	write(t, file, "the one before")
	if err := errors.Join(os.Symlink(file, link), os.Symlink(filepath.Join(dir, "none"), nowhere)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := backup(link); err != nil {
		t.Errorf("a backup by a link = %v", err)
	}
	if to, err := os.Readlink(link); err != nil || to != file {
		t.Errorf("the link leads to %q, %v", to, err)
	}
	if data, err := os.ReadFile(file); err != nil || string(data) != whole {
		t.Errorf("where the link leads is %q, %v", data, err)
	}

	asked.Store(0)
	for bad, want := range map[string]string{dir: "is a folder: name a file in it", nowhere: "is a link to what is not there"} {
		if _, _, err := backup(bad); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("backup %s = %v, want %q", bad, err, want)
		}
	}
	if n := asked.Load(); n > 0 {
		t.Errorf("the host was asked %d times for what has no place", n)
	}
}

// Who watches learns that nothing more will come, and why.
func TestAWatchThatEndsSaysSo(t *testing.T) {
	t.Parallel()
	const policy = `{"type":"ADDED","object":{"metadata":{"name":"made"}}}`
	for name, tt := range map[string]struct{ events, want string }{
		"by the host's end": {policy, "the watch has ended, with the host or by its time"},
		"by a cut":          {policy + `{"type":"ADD`, "the watch has ended, with the host or by its time"},
		"by an error":       {policy + `{"type":"ERROR","object":{"kind":"Status","message":"too old resource version"}}` + policy, "the watch has ended: too old resource version"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if r.URL.Query().Get("watch") == "" {
					_, _ = io.WriteString(w, `{"metadata":{"resourceVersion":"1"},"items":[]}`)
					return
				}
				_, _ = io.WriteString(w, tt.events)
			}))
			t.Cleanup(server.Close)
			out, err := berth(t, "policy", "list", "-w", "--kubeconfig", kubeconfigOf(t, server.URL))
			if err == nil || !strings.Contains(err.Error(), tt.want) || strings.Count(out, "made") != 1 {
				t.Errorf("list -w = %v, want %q; it says:\n%s", err, tt.want, out)
			}
		})
	}
}
