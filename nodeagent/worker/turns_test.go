package worker

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestTurnsGoToWhoCameFirst(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		held, err := all.take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		var order []uint64
		for _, came := range []uint64{4, 2, 3} {
			go func() {
				done, err := all.take(t.Context(), came)
				if err != nil {
					t.Error(err)
					return
				}
				order = append(order, came)
				done()
			}()
			synctest.Wait()
		}
		if len(order) > 0 {
			t.Errorf("%v had their turns while another one had its", order)
		}
		held()
		synctest.Wait()
		if want := []uint64{2, 3, 4}; !slices.Equal(order, want) {
			t.Errorf("turns went to %v, want %v", order, want)
		}
	})
}

func TestATurnThatHangsHoldsNobodyUpForLong(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		hanging, err := all.take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		next, err := all.take(t.Context(), 2)
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took != longestTurn {
			t.Errorf("the next turn came after %s, want %s", took, longestTurn)
		}
		hanging() // late: it must not give a second turn
		next()
		if all.free != 1 {
			t.Errorf("%d turns are free in the end, want 1", all.free)
		}
	})
}

func TestATurnThatIsNotAwaitedAnyMoreGoesToTheNext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		all := newTurns(1)
		held, err := all.take(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		left := make(chan error, 1)
		go func() {
			_, err := all.take(ctx, 2)
			left <- err
		}()
		synctest.Wait()
		cancel()
		if err := <-left; !errors.Is(err, context.Canceled) {
			t.Errorf("who gave up got %v", err)
		}
		held()
		done, err := all.take(t.Context(), 3)
		if err != nil {
			t.Fatal(err)
		}
		done()
	})
}
