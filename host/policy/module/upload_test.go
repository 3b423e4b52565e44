package module

import (
	"bytes"
	"context"
	"errors"
	"io"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

// zeros are so many bytes of no module.
func zeros(n int64) io.Reader { return io.LimitReader(zero{}, n) }

type zero struct{}

func (zero) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func TestUploadsTogetherHoldSoMuchMemory(t *testing.T) {
	t.Parallel()
	l := NewStore(Config{})
	if _, _, err := l.Receive("one", zeros(30<<20)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("30 MB of zeros: %v, want that they are too large", err)
	}
	if _, _, err := l.Receive("one", io.MultiReader(zeros(1<<20), brokenReader{})); !errors.Is(err, io.ErrUnexpectedEOF) {
		t.Errorf("a client that goes away: %v, want its end", err)
	}
	wasm, done, err := l.Receive("one", bytes.NewReader([]byte("module")))
	if err != nil || string(wasm) != "module" {
		t.Fatalf("a small module comes as %q, %v", wasm, err)
	}
	done()
	if l.intake.all != 0 || len(l.intake.of) != 0 {
		t.Fatalf("%d bytes are held by %v, though nothing is being uploaded", l.intake.all, l.intake.of)
	}
	var held []func()
	fill := func(user string) (n int) {
		for ; n < 100; n++ {
			_, done, err := l.Receive(user, zeros(16<<20))
			if errors.Is(err, ErrBusy) {
				return n
			}
			if err != nil {
				t.Fatal(err)
			}
			held = append(held, done)
		}
		return n
	}
	if n := fill("one"); n != 3 {
		t.Errorf("one user has %d modules of 16 MiB under way at once, want 3", n)
	}
	if n := fill("another"); n != 3 {
		t.Errorf("another has %d, want 3 as well", n)
	}
	if n := fill("a third"); n != 1 {
		t.Errorf("a third has %d, want the one for which there is room", n)
	}
	for _, done := range held {
		done()
	}
	if l.intake.all != 0 || len(l.intake.of) != 0 {
		t.Errorf("%d bytes are held by %v, though nothing is being uploaded", l.intake.all, l.intake.of)
	}
}

type brokenReader struct{}

func (brokenReader) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func TestModulesThatNobodyUsesDoNotFillTheStore(t *testing.T) {
	t.Parallel()
	const size = maxUnused / 2
	var a uploads
	ctx, now := context.Background(), time.Unix(1000, 0)
	used := map[string]bool{"used": true}
	come := func(digest string, want error) {
		t.Helper()
		if err := a.come(ctx, digest, size, used, now); !errors.Is(err, want) {
			t.Errorf("module %s comes: %v, want %v", digest, err, want)
		}
	}
	come("used", nil)
	come("a", nil)
	come("b", nil)
	come("c", ErrFull)
	come("a", nil) // again
	come("used", nil)
	used["b"] = true
	come("c", nil)
	come("d", ErrFull)
	now = now.Add(unusedFor)
	a.forget(now)
	come("d", nil)
}

// The turn of who uploads much is nobody else's.
func TestUsersTakeTurnsByThemselves(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var all turns
		leave, err := all.take(t.Context(), "flood")
		if err != nil {
			t.Fatal(err)
		}
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all.take(short, "flood"); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a second turn of the same user: %v, want that it is not there in time", err)
		}
		var after atomic.Bool
		go func() {
			next, err := all.take(t.Context(), "flood")
			if err != nil {
				t.Error(err)
				return
			}
			after.Store(true)
			next()
		}()
		other, err := all.take(t.Context(), "erin")
		if err != nil {
			t.Fatal(err)
		}
		other()
		synctest.Wait()
		if after.Load() {
			t.Error("two turns of one user at once")
		}
		leave()
		synctest.Wait()
		if !after.Load() || len(all.of) != 0 {
			t.Errorf("the next turn came: %v; left behind: %v", after.Load(), all.of)
		}
	})
}

func TestAModuleHasSoManySignatures(t *testing.T) {
	t.Parallel()
	l := NewStore(Config{})
	if _, err := l.Examine(t.Context(), "ann", nil, make([]v1alpha1.Signature, MaxSignatures+1)); !errors.Is(err, ErrRefused) {
		t.Errorf("Examine = %v, want it refused", err)
	}
}

func TestAnUploadWaitsForOthersForAMinute(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := NewStore(Config{})
		leave, err := l.turns.take(t.Context(), "ann")
		if err != nil {
			t.Fatal(err)
		}
		waits := func(user string) {
			t.Helper()
			begun := time.Now()
			if _, err := l.Examine(t.Context(), user, nil, nil); !errors.Is(err, context.DeadlineExceeded) || time.Since(begun) != time.Minute {
				t.Errorf("Examine gives up after %v: %v", time.Since(begun), err)
			}
		}
		waits("ann")
		leave()
		for range maxExamining {
			done, err := l.examine(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			defer done()
		}
		waits("ann")
		waits("bob")
		if len(l.turns.of) != 0 {
			t.Errorf("turns left behind: %v", l.turns.of)
		}
	})
}
