package badger_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/logtest"
	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
	"github.com/berth-dev/berth/host/store/storetest"
)

var kills = flag.Int("store.kills", usualKills(), "how often the crash test kills a writing process")

// usualKills is more in a campaign.
func usualKills() int {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		return 500
	}
	return 20
}

// crashDir tells the re-executed test binary to be the process that writes.
const crashDir = "BERTH_STORE_CRASH_DIR"

func TestMain(m *testing.M) {
	if dir := os.Getenv(crashDir); dir != "" {
		if err := writeUntilKilled(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
	}
	if dir := os.Getenv(startDir); dir != "" {
		startAndSay(dir)
		return
	}
	if dir := os.Getenv(outageDir); dir != "" {
		if err := sufferOutage(dir); err != nil {
			fmt.Println("error", err)
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// crashWriters write side by side, each its own keys.
const crashWriters = 8

// writeUntilKilled creates, updates and deletes pairs of objects. It prints a
// line before each commit and one after its answer:
//
//	try KEY VALUE
//	ack KEY VALUE REVISION
//
// where VALUE - is a deletion.
func writeUntilKilled(dir string) error {
	engine, err := badger.Open(dir, nil)
	if err != nil {
		return err
	}
	s, err := store.Open(context.Background(), engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{})
	if err != nil {
		return err
	}
	fmt.Println("open", s.Revision())
	errs := make(chan error)
	for w := range crashWriters {
		go func() {
			for n := 0; ; n++ {
				if err := crashStep(os.Stdout, s, fmt.Sprintf("w%d-%d", w, n%50), n); err != nil {
					errs <- err
					return
				}
			}
		}()
	}
	return <-errs
}

func crashKey(name string) store.Key {
	return store.Key{Resource: "configmaps", Namespace: "ns", Name: name}
}

func crashStep(out io.Writer, s *store.Store, name string, n int) error {
	_, exists := s.Get(crashKey(name))
	kind := store.Create
	value := fmt.Sprintf("%d-%d", os.Getpid(), n)
	switch {
	case exists && n%7 == 0:
		kind, value = store.Delete, "-"
	case exists:
		kind = store.Update
	}
	ops := []store.Op{{Kind: kind, Key: crashKey(name)}, {Kind: kind, Key: crashKey(name + "-mirror")}}
	if kind != store.Delete {
		ops[0].Object, ops[1].Object = crashObject(name, value, n), crashObject(name+"-mirror", value, n+1)
	}
	// Each line is one system call, so that it stays whole.
	fmt.Fprintf(out, "try %s %s\n", name, value)
	rev, _, err := s.Commit(context.Background(), ops...)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "ack %s %s %d\n", name, value, rev)
	return nil
}

// crashObject is mostly small, and now and then above a megabyte, where Badger
// keeps values in another file.
func crashObject(name, value string, n int) *corev1.ConfigMap {
	size := 2 << 10
	if n%97 == 96 {
		size = 1200 << 10
	}
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name},
		Data:       map[string]string{"value": value, "weight": strings.Repeat(value, size/len(value))},
	}
}

// acknowledgement is what the killed processes said about one key: what was acknowledged
// last, and what was tried after that.
type acknowledgement struct {
	acked string
	tried []string
	rev   string
}

func TestKilledProcessLosesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	known := map[string]acknowledgement{}
	newest := int64(0)
	acks := 0
	for n := range *kills {
		said := listen(t, killOnce(t, dir), known)
		if said.opened > 0 && said.opened < newest {
			t.Fatalf("kill %d: the store opened at revision %d, but %d was acknowledged", n, said.opened, newest)
		}
		if said.acks > 0 && said.first <= newest {
			t.Fatalf("kill %d: revision %d was used again", n, said.first)
		}
		newest = max(newest, said.newest)
		acks += said.acks
		// Some kills follow each other without a clean close in between.
		if n%3 != 1 || n == *kills-1 {
			newest = checkSurvived(t, dir, known, newest)
		}
	}
	t.Logf("%d kills, %d acknowledged writes, revision %d", *kills, acks, newest)
	if acks == 0 {
		t.Errorf("the writers never wrote")
	}
}

// killOnce runs a writing process for a moment and kills it.
func killOnce(t *testing.T, dir string) string {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), crashDir+"="+dir)
	var log logtest.Text
	cmd.Stdout, cmd.Stderr = &log, &log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	// Some die while they open the store, some while they begin to write, and
	// some, however slow the machine is, when they have written.
	sign := []string{"", "open ", "open ", "ack "}[rand.IntN(4)]
	polltest.Within(30*time.Second, func() bool { return log.Has(sign) })
	polltest.Pass(time.Duration(rand.IntN(250)) * time.Millisecond)
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // killed
	return log.String()
}

// heard sums up what one process said.
type heard struct {
	opened, first, newest int64
	acks                  int
}

// listen notes in known what the process said, but a last line cut short.
func listen(t *testing.T, log string, known map[string]acknowledgement) heard {
	t.Helper()
	var h heard
	lines := bufio.NewScanner(strings.NewReader(log[:strings.LastIndex(log, "\n")+1]))
	for lines.Scan() {
		var name, value string
		var rev int64
		line := lines.Text()
		switch {
		case scanned(line, "ack %s %s %d", &name, &value, &rev):
			known[name] = acknowledgement{acked: value, rev: fmt.Sprint(rev)}
			h.newest = max(h.newest, rev)
			if h.acks++; h.first == 0 || rev < h.first {
				h.first = rev
			}
		case scanned(line, "try %s %s", &name, &value):
			k, seen := known[name]
			if !seen {
				k.acked = "-"
			}
			k.tried = append(k.tried, value)
			known[name] = k
		case !scanned(line, "open %d", &h.opened):
			t.Fatalf("the writing process failed: %s", log)
		}
	}
	return h
}

func scanned(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// checkSurvived opens the directory after a kill. Each key holds what was
// acknowledged last or, since the kill may have come between the disk and the
// answer, what was tried after it; and mirrors agree. It returns the revision.
func checkSurvived(t *testing.T, dir string, known map[string]acknowledgement, newest int64) int64 {
	t.Helper()
	s := storetest.OpenEngine(t, open(t, dir))
	defer closeStore(t, s)
	if s.Revision() < newest {
		t.Fatalf("revision %d after the kill, %d was acknowledged", s.Revision(), newest)
	}
	for name, want := range known {
		got, rev := survivor(s, name)
		mirror, twinRev := survivor(s, name+"-mirror")
		if got != mirror || got != "-" && twinRev != next(rev) {
			t.Fatalf("half a commit: %s is %s at %s, its mirror %s at %s", name, got, rev, mirror, twinRev)
		}
		if got == want.acked && got != "-" && want.rev != twinRev {
			t.Fatalf("%s and its mirror are at %s and %s, acknowledged was %s", name, rev, twinRev, want.rev)
		}
		if got != want.acked && !slices.Contains(want.tried, got) {
			t.Fatalf("%s is %s at %s; acknowledged was %s at %s, then tried %s", name, got, rev, want.acked, want.rev, want.tried)
		}
		known[name] = acknowledgement{acked: got, rev: twinRev}
	}
	return s.Revision()
}

// next is the revision behind rev: that of a commit's next change.
func next(rev string) string {
	n, err := strconv.ParseInt(rev, 10, 64)
	if err != nil {
		return rev
	}
	return strconv.FormatInt(n+1, 10)
}

// survivor returns the value that the store holds, - for none, and where.
func survivor(s *store.Store, name string) (value, rev string) {
	obj, ok := s.Get(crashKey(name))
	if !ok {
		return "-", ""
	}
	return obj.(*corev1.ConfigMap).Data["value"], obj.GetResourceVersion()
}
