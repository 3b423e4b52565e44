package badger_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
	"github.com/berth-dev/berth/host/store/storetest"
)

var rounds = flag.Int("store.damages", usualDamages(), "how often each kind of damage is tried, each time elsewhere")

// usualDamages is more in a campaign.
func usualDamages() int {
	if os.Getenv("BERTH_CAMPAIGN") != "" {
		return 25
	}
	return 1
}

// A store that something was done to is either whole or refuses, in a sentence
// that says what to do: whenever it is started.
func TestDamageIsRefusedOrDoesNoHarm(t *testing.T) {
	t.Parallel()
	image, older := t.TempDir(), t.TempDir()
	want := makeImages(t, image, older)
	undamaged := t.TempDir()
	copyDir(t, image, undamaged)
	if got := start(t, undamaged); got != want {
		t.Fatalf("the undamaged store: %s, want %s", got, want)
	}
	for _, pattern := range damaged {
		for _, d := range damages {
			t.Run(pattern+" "+d.name, func(t *testing.T) {
				t.Parallel()
				for round := range *rounds {
					checkDamage(t, pattern, d, uint64(round), image, older, want)
				}
			})
		}
	}
}

func checkDamage(t *testing.T, pattern string, d damage, round uint64, image, older, want string) {
	t.Helper()
	dir := t.TempDir()
	copyDir(t, image, dir)
	sum := sha256.Sum256([]byte(pattern + d.name))
	rng := rand.New(rand.NewPCG(round, uint64(sum[0])<<8|uint64(sum[1])))
	file, err := pick(rng, dir, pattern)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.do(rng, file, older); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at first", "again"} {
		got := start(t, dir)
		if got == want && *rounds == 1 {
			break // a campaign looks again
		}
		if got == want {
			continue
		}
		if !strings.HasPrefix(got, "refused: ") || !strings.Contains(got, "berth restore BACKUP") && !strings.Contains(got, "remove the file") || strings.Count(got, "\n") > 0 {
			t.Errorf("round %d, %s: %s\nwant %s or a refusal that says what to do", round, when, got, want)
			return
		}
		if testing.Verbose() && when == "at first" {
			t.Log(got)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Error(err)
	}
}

// makeImages writes a store with tables, value logs and write-ahead logs that
// were not closed, as it was once and as it is after more was written. It
// returns what a start says that finds it whole.
func makeImages(t *testing.T, image, older string) (whole string) {
	t.Helper()
	dir := t.TempDir()
	for round := range 8 {
		s := storetest.OpenEngine(t, open(t, dir))
		fill(t, s, round)
		switch round {
		case 5:
			takeImage(t, dir, older)
		case 7:
			takeImage(t, dir, image)
			whole = "whole: " + contents(t.Context(), s)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return whole
}

// fill creates, changes and removes objects, small and large, and puts a blob.
func fill(t *testing.T, s *store.Store, round int) {
	t.Helper()
	for i := range 60 {
		name := fmt.Sprintf("w%d-%d", i%7, i%60)
		if err := crashStep(io.Discard, s, name, round*60+i); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.PutBlob(t.Context(), fmt.Sprint("d", round), []byte(strings.Repeat("wasm", 200<<10+round))); err != nil {
		t.Fatal(err)
	}
}

// contents sums up all that a store holds, and where.
func contents(ctx context.Context, s *store.Store) string {
	sum := sha256.New()
	list, err := s.List("configmaps", "", store.ListOptions{})
	for _, obj := range list.Items {
		name := obj.GetName()
		value, rev := survivor(s, name)
		fmt.Fprintln(sum, name, value, rev)
	}
	blobs, blobErr := s.Blobs(ctx)
	err = errors.Join(err, blobErr)
	for _, digest := range blobs {
		data, blobErr := s.Blob(ctx, digest)
		err = errors.Join(err, blobErr)
		fmt.Fprintln(sum, digest, len(data))
		sum.Write(data)
	}
	return fmt.Sprintf("%d objects, %d blobs, revision %d, %x, %v", len(list.Items), len(blobs), s.Revision(), sum.Sum(nil)[:8], err)
}

// startDir tells the re-executed test binary to start a store there.
const startDir = "BERTH_STORE_START_DIR"

// start opens a copy of the store in a process of its own, which nothing can
// end but the store, writes and reads, and returns what it said.
func start(t *testing.T, dir string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), startDir+"="+dir)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Sprintf("ended by %v: %s", err, out)
	}
	return strings.TrimSuffix(string(out), "\n")
}

// startAndSay is what that process does. It puts back what it writes.
func startAndSay(dir string) {
	ctx := context.Background()
	engine, err := badger.Open(dir, nil)
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	s, err := store.Open(ctx, engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{})
	if err != nil {
		fmt.Println("refused:", err)
		return
	}
	fmt.Println("whole:", contents(ctx, s))
	if err := errors.Join(s.PutBlob(ctx, "more", []byte("wasm")), s.DeleteBlob(ctx, "more"), engine.Compact(ctx), s.Close()); err != nil {
		fmt.Println(err)
	}
}
