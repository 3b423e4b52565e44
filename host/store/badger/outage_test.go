package badger_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes/scheme"

	"github.com/berth-dev/berth/host/polltest"
	"github.com/berth-dev/berth/host/store"
	"github.com/berth-dev/berth/host/store/badger"
	"github.com/berth-dev/berth/host/store/storetest"
)

// outageDir tells the re-executed test binary to run out of descriptors there.
const outageDir = "BERTH_STORE_OUTAGE_DIR"

// A process that has no descriptor left for the next log refuses writes, reads
// on, and writes again when there are some: it does not end.
func TestStoreOutlivesALackOfDescriptors(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), outageDir+"="+t.TempDir())
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("the process ended by %v: %s", err, out)
	}
	t.Logf("%s", out)
}

// sufferOutage is what that process does: twice, so that the second outage finds
// what the first has left.
func sufferOutage(dir string) error {
	engine, err := badger.Open(dir, nil)
	if err != nil {
		return err
	}
	s, err := store.Open(context.Background(), engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{})
	if err != nil {
		return err
	}
	acked := 0
	for round := range 2 {
		if acked, err = writeWithout(s, acked); err != nil {
			return fmt.Errorf("round %d: %w", round, err)
		}
	}
	if err := s.Close(); err != nil {
		return err
	}
	if engine, err = badger.Open(dir, nil); err != nil {
		return err
	}
	if s, err = store.Open(context.Background(), engine, storetest.Codec{Scheme: scheme.Scheme}, store.Options{}); err != nil {
		return err
	}
	fmt.Println(acked, "acknowledged")
	return errors.Join(haveAll(s, acked), s.Close())
}

// writeWithout writes until there is no descriptor, and then until there is one.
func writeWithout(s *store.Store, acked int) (int, error) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return acked, err
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 3, Max: limit.Max}); err != nil {
		return acked, err
	}
	const most = 400
	from := acked
	var refused error
	for ; refused == nil && acked < from+most; acked++ {
		refused = writeLarge(s, acked)
	}
	acked--
	if !errors.Is(refused, store.ErrUnavailable) || !strings.Contains(refused.Error(), "too many open files") {
		return acked, fmt.Errorf("after %d writes: %w, want ErrUnavailable and why", acked-from, refused)
	}
	fmt.Println("refused:", refused)
	start := time.Now()
	again := writeLarge(s, acked)
	if !errors.Is(again, store.ErrUnavailable) || time.Since(start) > 5*time.Second {
		return acked, fmt.Errorf("the next write, after %s: %w, want ErrUnavailable at once", time.Since(start), again)
	}
	if err := haveAll(s, acked); err != nil {
		return acked, fmt.Errorf("meanwhile: %w", err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return acked, err
	}
	start = time.Now()
	if polltest.Within(time.Minute, func() bool { again = writeLarge(s, acked); return again == nil }) {
		acked++
	}
	fmt.Println("written again after", time.Since(start).Round(time.Millisecond))
	return acked, errors.Join(again, haveAll(s, acked))
}

func writeLarge(s *store.Store, n int) error {
	name := fmt.Sprint("x", n)
	_, _, err := s.Commit(context.Background(), store.Op{Kind: store.Create, Key: crashKey(name), Object: crashObject(name, strings.Repeat(name, 100<<10), 0)})
	if errors.Is(err, store.ErrExists) {
		return nil // it was in doubt, and is there
	}
	return err
}

func haveAll(s *store.Store, n int) error {
	for i := range n {
		if value, _ := survivor(s, fmt.Sprint("x", i)); value != strings.Repeat(fmt.Sprint("x", i), 100<<10) {
			return fmt.Errorf("object %d of %d is not there", i, n)
		}
	}
	return nil
}
