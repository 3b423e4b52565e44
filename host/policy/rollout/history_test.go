package rollout_test

import (
	"testing"

	"github.com/berth-dev/berth/host/policy/rollout"
	"github.com/berth-dev/berth/host/policy/v1alpha1"
)

func TestARollBackGoesToWhatWasNotRolledBack(t *testing.T) {
	t.Parallel()
	const replaced, back, tried = v1alpha1.LeftReplaced, v1alpha1.LeftRolledBack, v1alpha1.LeftAutoRolledBack
	type left struct{ module, how string }
	for name, tt := range map[string]struct {
		current string
		history []left // the newest first
		want    string
	}{
		"the one before":                                 {"B", []left{{"A", replaced}}, "A"},
		"none, after the only one":                       {"A", nil, ""},
		"none, once it was gone back to":                 {"A", []left{{"B", back}, {"A", replaced}}, ""},
		"none, after two steps back":                     {"A", []left{{"B", back}, {"C", back}, {"B", replaced}, {"A", replaced}}, ""},
		"not what was taken back after it was replaced":  {"D", []left{{"B", back}, {"C", back}, {"B", replaced}, {"A", replaced}}, "A"},
		"what was taken back, and decided again since":   {"C", []left{{"B", replaced}, {"A", replaced}, {"B", back}, {"A", replaced}}, "B"},
		"one that failed as a canary, and decided since": {"C", []left{{"B", replaced}, {"A", replaced}, {"B", tried}}, "B"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := &v1alpha1.PolicyStatus{Current: &v1alpha1.PolicyRevision{Module: tt.current}}
			for _, l := range tt.history {
				r := v1alpha1.PolicyRevision{Module: l.module, Left: l.how}
				if l.how == tried {
					r.Reason = v1alpha1.CameCanary
				}
				s.History = append(s.History, r)
			}
			got := ""
			if r := rollout.Previous(s); r != nil {
				got = r.Module
			}
			if got != tt.want {
				t.Errorf("Former = %q, want %q", got, tt.want)
			}
		})
	}
}
