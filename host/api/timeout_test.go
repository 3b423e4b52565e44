package api

import (
	"testing"
	"testing/synctest"
	"time"
)

// TestStopWaitsForAClientThatIsBeingGivenUp: what gives a client up touches its
// request, whose parts belong to others once it has ended.
func TestStopWaitsForAClientThatIsBeingGivenUp(t *testing.T) {
	t.Parallel()
	began, goOn := make(chan struct{}), make(chan struct{})
	ended := false
	p := newIODeadline(0, func(time.Time) error {
		close(began)
		<-goOn
		ended = true
		return nil
	})
	<-began
	stopped := make(chan bool)
	go func() { p.Stop(); stopped <- ended }()
	close(goOn)
	if !<-stopped {
		t.Error("Stop returned while the client was being given up")
	}
}

func TestNobodyIsGivenUpAfterStop(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		given := 0
		p := newIODeadline(time.Second, func(time.Time) error { given++; return nil })
		for range 2 {
			p.Stop()
			time.Sleep(time.Minute)
			p.Reset(time.Second)
		}
		if p.Stop(); given != 0 {
			t.Errorf("%d clients are given up after Stop", given)
		}
		p.Reset(time.Second)
		time.Sleep(time.Minute)
		if synctest.Wait(); given != 1 {
			t.Errorf("%d clients are given up after Reset, want 1", given)
		}
	})
}
