package policy

import (
	"context"
	"testing"
	"testing/synctest"
)

// TestWhatIsWantedAgainIsLoadedAnew has a load forgotten, and its program asked for
// once more before it has ended.
func TestWhatIsWantedAgainIsLoadedAnew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		told := 0
		b := &backgroundLoads{ctx: t.Context(), all: map[string]*pendingLoad{}, done: func() { told++ }}
		ends := make(chan struct{})
		slow := func(ctx context.Context) (*version, error) {
			<-ends
			return nil, ctx.Err()
		}
		want := new(version)
		quick := func(context.Context) (*version, error) { return want, nil }
		if _, _, done := b.fetch(t.Context(), "one", slow); done {
			t.Fatal("the first load is done, and was to be slow")
		}
		b.forgetUnwanted() // after the pass that wanted it
		b.forgetUnwanted() // after one that did not
		if _, err, done := b.fetch(t.Context(), "one", quick); done {
			t.Fatalf("a load that was cancelled answers %v", err)
		}
		b.forgetUnwanted()
		close(ends)
		synctest.Wait()
		if told != 1 {
			t.Fatalf("the end of the first load was told %d times", told)
		}
		if _, err, done := b.fetch(t.Context(), "one", quick); done {
			t.Fatalf("a load that was cancelled answers %v", err)
		}
		b.forgetUnwanted()
		synctest.Wait()
		one, err, done := b.fetch(t.Context(), "one", slow)
		if one != want || err != nil || !done {
			t.Errorf("fetch = %v, %v, %t; want what was loaded anew", one, err, done)
		}
		b.group.Wait()
	})
}
