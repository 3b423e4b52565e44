package controller

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/berth-dev/berth/abi"
)

func TestAGuestThatAnswersTheSameDifferentlyIsToldOf(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name  string
		moody bool
		want  string
	}{
		{"one that counts its calls", true, "asked twice about the same state it answers differently: why was"},
		{"one that answers by what it is asked", false, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			var calls atomic.Int64
			g := &guest{decide: func(*Object, []Object) (*abi.ReconcileResult, error) {
				if n := calls.Add(1); tt.moody {
					return &abi.ReconcileResult{Why: []string{fmt.Sprint("call ", n)}}, nil
				}
				return &abi.ReconcileResult{}, nil
			}}
			drive(t, g, func(c *cluster) {
				for i := range sampled {
					c.put("replicasets.apps", set(fmt.Sprintf("web-%d", i), 0))
				}
			}, func(c *cluster) {
				c.mu.Lock()
				defer c.mu.Unlock()
				if got := strings.Join(c.notes, "\n"); (tt.want == "") != (got == "") || !strings.Contains(got, tt.want) {
					t.Errorf("notes %q, want %q", got, tt.want)
				}
				if got := calls.Load(); got <= sampled {
					t.Errorf("asked %d times about %d parents, want one to be asked twice", got, sampled)
				}
			})
		})
	}
}
