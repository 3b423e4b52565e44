package logtest_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/berth-dev/berth/host/logtest"
)

func TestTextIsReadWhileItIsWritten(t *testing.T) {
	t.Parallel()
	var text logtest.Text
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			for range 100 {
				fmt.Fprintf(&text, "writer %d\n", i)
				if !text.Has(fmt.Sprintf("writer %d\n", i)) {
					t.Errorf("what writer %d wrote is not there", i)
				}
			}
		})
	}
	writers.Wait()
	if n := strings.Count(text.String(), "\n"); n != 800 {
		t.Errorf("%d lines, want 800", n)
	}
}
